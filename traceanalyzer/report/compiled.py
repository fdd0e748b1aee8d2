"""Builds the answer about programs whose ops XLA compiled, as in JAX and on TPUs."""

from typing import Final

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import Code, Text
from traceanalyzer.report import text as t
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import source_lines
from traceanalyzer.tables.compiled_ops import CALLBACKS
from traceanalyzer.units import PS_PER_US

_MOST: Final = 3  # ops that are named


def ran_compiled(facts: PageFacts) -> Text:
    """Return where compiled ops ran, and on a CPU the ops that took longest."""
    if not facts.compiled_on_cpu:
        device = facts.used[0] if facts.used else "accelerator"
        return (f"{_ops(facts)}, compiled by XLA, ran on the {device}.",)
    program = {None: "", "": "JAX: "}.get(facts.jax_version, f"JAX {facts.jax_version}: ")
    return (f"{program}{_ops(facts)}, compiled by XLA, ran on the CPU.", *_longest(facts))


def _ops(facts: PageFacts) -> str:
    all_of_them = "all " if 1 < facts.compiled == len(facts.run.ops) else ""
    said = f"{all_of_them}{counted(facts.compiled, 'op')}"
    return said if facts.jax_version else t.capital(said)


def _longest(facts: PageFacts) -> Text:
    """Name the ops that took longest, with their time per step and the Python code they call."""
    ops = facts.run.ops
    ops = ops[ops["placement"].astype(str) == "xla"]
    per_step = {op_id: facts.diagnosis.costs.host_ps([op_id]) for op_id in ops["op_id"]}
    has_steps = any(per_step.values())
    took_ps = ops["op_id"].map(per_step) if has_steps else ops["host_self_ps"]
    longest = took_ps.astype(float).fillna(0.0).nlargest(_MOST)
    ops = ops.loc[longest.index]
    named: list[Text] = []
    for name, op_type, line, took in zip(
        ops["name"], ops["type"], source_lines(ops, facts.run), longest, strict=True
    ):
        us = took / PS_PER_US
        step_us = facts.step_us if has_steps else None
        share: Text = (" (", t.part(us / step_us), ")") if step_us else ()
        per = " per step" if has_steps else " in total"
        said: Text = (Code(text=str(name)), " ", t.time(us), per, *share)
        if CALLBACKS.fullmatch(str(op_type)):
            at: Text = () if line is None else (" (", line, ")")
            said = (*said, ", which calls Python", *at)
        named.append(said)
    return (" Longest: ", *t.listing(named, most=_MOST), ".") if named else ()
