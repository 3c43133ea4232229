"""The wire format gives back what was sent, and refuses everything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp import domain, messages, wire


def subtree(depth: int = 3) -> st.SearchStrategy[object]:
    leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False)
    return st.recursive(leaf, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=6), inner), max_leaves=8)


verdicts = st.one_of(
    st.builds(domain.BuildFailed, messages=st.just(())),
    st.builds(domain.Passed, results=st.just(()), binding=st.just(()), notes=st.tuples(st.text())),
    st.builds(domain.Rejected, rule=st.text(), evidence=st.text(), workload=st.none()),
    st.builds(
        domain.Mismatch,
        output=st.text(),
        workload=st.builds(
            domain.Workload,
            name=st.text(),
            inputs=st.tuples(st.builds(domain.TensorShape, dtype=st.text(), shape=st.lists(st.integers(0)).map(tuple))),
            seed=st.integers(),
        ),
        worst=st.none(),
        statistics=st.builds(
            domain.ErrorStatistics,
            # NaN travels too, but equals nothing, itself included.
            **dict.fromkeys(("max_abs", "max_rel_spread", "torch_max_abs", "tolerance"), st.floats(allow_nan=False)),
        ),
        explanation=st.text(),
    ),
)


@given(st.builds(messages.VerdictReached, job=st.integers(), verdict=verdicts))
def test_what_is_sent_arrives(message: messages.VerdictReached) -> None:
    sent = wire.frame(message)
    body = sent[wire.HEADER_BYTES :]
    assert wire.body_length(sent[: wire.HEADER_BYTES]) == len(body)
    assert wire.loads(messages.Reply, body) == message


@given(subtree())
def test_anything_else_is_refused(data: object) -> None:
    with pytest.raises(wire.WireError):
        wire.loads(messages.Reply, json.dumps(data))


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.loads(messages.Reply, data)


def test_a_forged_field_or_type_is_refused() -> None:
    honest = json.loads(wire.dumps(messages.Done(job=1)))
    for forged in ({**honest, "extra": 1}, {**honest, "job": "1"}, {"class": "Done"}, {**honest, "class": "Path"}):
        with pytest.raises(wire.WireError):
            wire.loads(messages.Reply, json.dumps(forged))


def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(wire.WireError):
        wire.body_length(b"\xff\xff\xff\xff")


def test_floats_that_json_lacks() -> None:
    sample = domain.Interval(low=float("-inf"), mid=0.5, high=float("inf"))
    assert wire.loads(domain.Interval, wire.dumps(sample)) == sample


def test_a_field_may_be_called_type() -> None:
    parameter = domain.Parameter(name="x", type="const float*", kind=domain.TypeKind.POINTER, is_const=True)
    assert wire.loads(domain.Parameter, wire.dumps(parameter)) == parameter
