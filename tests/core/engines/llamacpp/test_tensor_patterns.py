"""Searching tensor names by patterns."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.tensor_patterns import TensorPattern, tensor_pattern
from service.core.problems import InvalidRequest

NAMES = (
    "token_embd.weight",
    "output.weight",
    "blk.0.attn_q.weight",
    "blk.1.ffn_up_exps.weight",
    "blk.11.ffn_down_exps.weight",
    "blk.27.ffn_gate_shexp.weight",
    "blk.3.ssm_a",
)

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "k",
        "l",
        "0",
        "1",
        "_",
        ".",
        r"\.",
        r"\d",
        r"\w",
        r"\D",
        "[0-3]",
        "[^a-f]",
        r"[\d_]",
        "(?:b|bl)",
        "(a|b|k)",
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1}", "{0}", "{2}?", "*?"])


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Patterns that ECMAScript and Python read alike."""
    parts = draw(st.lists(st.tuples(ATOMS, QUANTIFIERS), min_size=1, max_size=5))
    body = "".join(atom + quantifier for atom, quantifier in parts)
    return draw(st.sampled_from([body, f"({body})", f"{body}|k", f"^{body}", f"{body}$"]))


def test_every_match_begins_with_the_literal_text() -> None:
    """Up to the first part that may be several things; none where alternatives begin with the pattern."""
    texts = {r"blk\.7\.ffn_(up|down)": "blk.7.ffn_", r"blk\.\d+": "blk.", "k": "k", "a|b": "", "^a": "", "ab*": "a"}
    assert {pattern: TensorPattern(pattern).literal for pattern in texts} == texts


@given(pattern=patterns(), name=st.text("abkl01_.", max_size=8))
def test_finds_what_an_ordinary_engine_finds(pattern: str, name: str) -> None:
    """The automaton agrees with backtracking search on patterns both understand."""
    assert TensorPattern(pattern).found_in(name) == (re.search(pattern, name, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"exps", ["blk.1.ffn_up_exps.weight", "blk.11.ffn_down_exps.weight"]),
        (r"blk\.1\.", ["blk.1.ffn_up_exps.weight"]),
        (r"blk\.(1|27)\.ffn", ["blk.1.ffn_up_exps.weight", "blk.27.ffn_gate_shexp.weight"]),
        (r"^output", ["output.weight"]),
        (r"ssm_a$", ["blk.3.ssm_a"]),
        (r"blk\.[[:digit:]]{2}\.", ["blk.11.ffn_down_exps.weight", "blk.27.ffn_gate_shexp.weight"]),
        (r"blk\.\d+\.ffn_(up|down|gate)_exps\.", ["blk.1.ffn_up_exps.weight", "blk.11.ffn_down_exps.weight"]),
        (r"[]", []),
        (r"^[^]+$", list(NAMES)),
        (r"\.\Attn", []),
        (r"blk\.[^0-9]", []),
    ],
)
def test_finds_tensors_by_what_people_write(pattern: str, found: list[str]) -> None:
    """Patterns of everyday use, POSIX classes and ECMAScript's empty brackets among them."""
    assert [name for name in NAMES if tensor_pattern(pattern).found_in(name)] == found


BROKEN = (
    "",
    "(",
    ")",
    "(a",
    "a)",
    "[a",
    "*a",
    "a**",
    "a{",
    "a{2",
    "a{3,2}",
    "a{1000}",
    "a\\",
    "[[:nonsense:]]",
    "[z-a]",
)
BEYOND_AUTOMATA = ("(?<=a)b", "(?i)a", "(?=a)", "(?!a)b", r"\1", r"(a)\1", r"\bffn", r"\x41")
NOT_ON_THE_COMMAND_LINE = ("a,b", "a=b", "a" * 2000, "(" * 60)


@pytest.mark.parametrize("pattern", [*BROKEN, *BEYOND_AUTOMATA, *NOT_ON_THE_COMMAND_LINE])
def test_refuses_what_cannot_be_followed(pattern: str) -> None:
    """Broken patterns, features an automaton has not and what the command line cannot carry are problems."""
    with pytest.raises(InvalidRequest, match="override_tensor pattern"):
        tensor_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(.*)*x", "(a?){60}" + "a" * 60, ".*" * 60 + "x", "((a|b)*c)*$"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Patterns that ruin backtracking engines are searched in a thousand names within a second or two."""
    searched = tensor_pattern(pattern)
    begin = time.perf_counter()
    for number in range(1000):
        searched.found_in("a" * 40 + str(number))
    assert time.perf_counter() - begin < 3


def test_too_many_states_are_refused() -> None:
    """Nested counted repetition that would need a huge automaton is a problem."""
    with pytest.raises(InvalidRequest, match="repeats too much"):
        tensor_pattern("((a{64}){64}){64}")
