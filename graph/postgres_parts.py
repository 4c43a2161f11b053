"""Checkpoints in PostgreSQL write a large value once: LangGraph's tables, with rows that name others.

A value of over :data:`INLINE` bytes is a row of ``checkpoint_blobs`` under the channel :data:`PART`,
its hash in place of a version. Rows that hold it have the type :data:`REF` and the hash; reading joins
them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

#: Bytes up to which a value stands in its own row: two rows that name a part take 200 themselves.
INLINE = 256
PART, REF = "__part__", "part"
#: Deletes what a thread's checkpoints (thread, namespace) no longer name; under :data:`LOCK` writers
#: wait, so that none names it meanwhile.
LOCK = "lock table checkpoint_blobs, checkpoint_writes in share row exclusive mode"
SWEEP = (
    f"""delete from checkpoint_blobs b where b.thread_id = %s and b.checkpoint_ns = %s
    and b.channel <> '{PART}' and not exists (
        select 1 from checkpoints c where c.thread_id = b.thread_id
        and c.checkpoint_ns = b.checkpoint_ns
        and c.checkpoint->'channel_versions'->>b.channel = b.version
    )""",  # noqa: S608 - ours
    f"""delete from checkpoint_blobs p
    where p.thread_id = %s and p.checkpoint_ns = %s and p.channel = '{PART}' and not exists (
        select 1 from checkpoint_blobs b where b.thread_id = p.thread_id
        and b.checkpoint_ns = p.checkpoint_ns and b.type = '{REF}'
        and b.blob = decode(p.version, 'hex')
    ) and not exists (
        select 1 from checkpoint_writes w where w.thread_id = p.thread_id
        and w.checkpoint_ns = p.checkpoint_ns and w.type = '{REF}'
        and w.blob = decode(p.version, 'hex')
    )""",  # noqa: S608 - ours
)


def taken_out(rows: Iterable[Sequence[Any]]) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
    """Return LangGraph's rows (they end in type and bytes) with hashes for large values; the parts."""
    kept: list[Sequence[Any]] = []
    parts: dict[str, Sequence[Any]] = {}
    for row in rows:
        *front, kind, body = row
        if body is None or len(body) <= INLINE:
            kept.append(row)
            continue
        digest = hashlib.sha256(kind.encode() + b" " + body).digest()[:16]
        parts[digest.hex()] = (*front[:2], PART, digest.hex(), kind, body)
        kept.append((*front, REF, digest))
    return kept, list(parts.values())


def with_parts(select: str) -> str:
    """Return LangGraph's query of checkpoints with each hash's value in its place."""
    for name in ("bl", "cw"):
        own, whole = f"{name}.type::bytea, {name}.blob", f"{name}p"
        table = f"checkpoint_{'blobs' if name == 'bl' else 'writes'} {name}"
        joined = f"""{table}
            left join checkpoint_blobs {whole} on {name}.type = '{REF}'
            and {whole}.thread_id = checkpoints.thread_id
            and {whole}.checkpoint_ns = checkpoints.checkpoint_ns and {whole}.channel = '{PART}'
            and {whole}.version = case when {name}.type = '{REF}' then encode({name}.blob, 'hex') end
        """
        if own not in select or table not in select:
            raise RuntimeError(
                "LangGraph's query of checkpoints is another now: graph.postgres_parts"
            )
        select = select.replace(
            own, f"coalesce({whole}.type, {name}.type)::bytea, coalesce({whole}.blob, {name}.blob)"
        ).replace(table, joined)
    return select
