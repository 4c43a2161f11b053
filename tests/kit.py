"""Fixtures that several rooms share."""

from collections.abc import Sequence

from langchain_core.messages import HumanMessage

from stategate.envs.protocols import Fragment, FragmentRole
from stategate.nodes.build_context.assemble import line_piece
from stategate.nodes.protocols import BuiltContext, Piece


def piece_of(kind: str, *said: tuple[FragmentRole, str], actions: Sequence[str] = ()) -> Piece:
    """Return a piece of ``kind`` whose fragments have these roles and texts."""
    piece = line_piece(kind, kind, [Fragment(text, role=role) for role, text in said])
    return Piece(**{**vars(piece), "actions": tuple(actions)})


def step_piece(action: str, outcome: str = "", note: str = "", kind: str = "event") -> Piece:
    """Return the piece of an earlier step."""
    said: list[tuple[FragmentRole, str]] = [("lead", "1. "), ("action", action)]
    said += [("lead", " => "), ("outcome", outcome)] if outcome else []
    said += [("lead", "\n - "), ("note", note)] if note else []
    return piece_of(kind, *said, ("lead", "\n"))


def context_of(*pieces: Piece) -> BuiltContext:
    """Return the context that ``pieces`` make."""
    text = "".join(piece.text for piece in pieces)
    tokens = sum(piece.tokens_after for piece in pieces)
    return BuiltContext((HumanMessage(text),), pieces, tokens)
