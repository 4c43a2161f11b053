"""What memory is worth to a language model: questions answered with four contexts, without a judge.

Contexts: ``nothing``, ``last`` (the last turns that fit into 600 tokens), ``all`` (the last turns that
fit the model), ``recall`` (600 tokens of long-term memory). An answer is right if it holds an accepted
string in whole words; where there is no answer, if it says that it does not know. Errors and tests are
over conversations (clusters).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

from langchain_core.messages import HumanMessage, SystemMessage

from stategate.envs.qa.questions import says
from stategate.evals.core.statistics import compared
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.evals.memory.evidence import BUDGET, fitting, line_of, line_of_fact, remember
from stategate.evals.memory.published import Conversation, Question, identity_of, read_conversations
from stategate.evals.settings import Answers
from stategate.graph.config import load_config
from stategate.nodes.models.calls import ask
from stategate.nodes.models.llms import EmbeddedLlm
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.stores.runs import public_config
from stategate.stores.tokens import count_tokens

METRICS = ("right", "tokens", "seconds")
UNKNOWN = "unknown"
_ANSWER_TOKENS = 48
_FRAME_TOKENS = 200  # of a prompt beside its context: the instruction and the question
_SYSTEM_PROMPT = (
    "Answer the question about the person you talk with, from what was said before, in a few words. "
    f"If it was not said, answer: {UNKNOWN}."
)

#: Returns the text of the conversation that the model reads for a question.
Context = Callable[[Question], str]


def answers_task(settings: Answers) -> Task:
    """Return the task: every question answered with every context."""
    talks = read_conversations(settings.file)[: settings.limit]
    if not any(question.answers for talk in talks for question in talk.questions):
        fix = "name LongMemEval's JSON, or BFCL's folder"
        raise UserError(f"no question of '{settings.file}' has an accepted answer: {fix}")
    config = load_config(settings.config, list(settings.overrides))
    resources = Resources(config.llm, config.embedder)
    longest = config.llm.n_ctx if isinstance(config.llm, EmbeddedLlm) else settings.room
    room = longest - _FRAME_TOKENS - _ANSWER_TOKENS
    args = {
        **settings.args(),
        "data": identity_of(settings.file),
        "questions": sum(len(talk.questions) for talk in talks),
        "llm": public_config(config.llm.model_dump(mode="json")) if config.llm else None,
    }
    samples = [
        Sample({"question": q.id, "conversation": talk.id}, (talk, q), {"right": 0.0, "tokens": 0})
        for talk in talks
        for q in talk.questions
    ]

    def solver(name: str) -> Solver:
        @lru_cache(1)  # questions of a conversation follow one another
        def context(talk: Conversation) -> Context:
            return context_of(name, talk, resources, room)

        def solve(sample: Sample, row: Row) -> None:
            talk, question = sample.data
            read = context(talk)(question)
            before = f"What was said before:\n{read}\n\n" if read else ""
            messages = [
                SystemMessage(_SYSTEM_PROMPT),
                HumanMessage(f"{before}Question: {question.text}"),
            ]
            reply = ask(resources, messages, _ANSWER_TOKENS)
            tokens = sum(count_tokens(str(message.content)) for message in messages)
            row |= {"right": float(is_right(question, reply)), "tokens": tokens, "reply": reply}

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        agents, pairs = settings.agents, combinations(settings.agents, 2)
        how = (METRICS, METRICS, pairs, settings.seed, "conversation")
        return compared(rows, agents, "question", *how)

    # A model's server keeps what it has read of a conversation while the next question is of the same.
    return Task(
        settings.agents, samples, solver, scorer, args, "questions", "question", "conversation"
    )


def is_right(question: Question, reply: str) -> bool:
    """Say whether ``reply`` holds an accepted answer, or that none is known where there is none."""
    accepted = question.answers if question.answerable else (UNKNOWN,)
    return any(says(reply, (answer.replace("|", " "),)) for answer in accepted)


def context_of(name: str, talk: Conversation, resources: Resources, room: int) -> Context:
    """Return what gives the context ``name`` for questions about ``talk``."""
    if name == "recall":
        facts_of = remember(talk, resources.embedder)

        def recall(question: Question) -> str:
            lines = list(map(line_of_fact, facts_of(question)))
            return "\n".join(lines[: fitting(lines, BUDGET)])

        return recall
    budget = {"nothing": 0, "last": BUDGET, "all": room}[name]
    lines = [line_of(turn) for turn in talk.turns]
    text = "\n".join(lines[len(lines) - fitting(reversed(lines), budget) :])
    return lambda question: text
