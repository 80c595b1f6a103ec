"""What the text of an error itself states: what to do, what is required, which settings it names.

One rule for the many messages of an engine that no row of the tables names: they state their
remedy ("Please set ..."), a requirement ("X requires Y") or a combination that is not there
("X is not supported with Y"), as vLLM does in `config/`, `engine/arg_utils.py`, `platforms/`
and `model_executor/layers/`. What is quoted is the text of the log; no value is made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.features import (
    FEATURES,
    V2_RUNNER,
    Feature,
    engine_name,
    is_setting,
    needs_v2_runner,
    place_of,
)
from warmup_insights.analysis.advice.known_texts import (
    MAX_TEXT,
    OTHER_BUILD,
    OTHER_WEIGHTS,
    Statement,
)

MAX_QUOTE = 300
MAX_VALUE = 40
_VERBS = (
    r"(?i:use(?! of\b)|try|set|consider|increase|decrease|reduce|lower|raise|disable|enable|remove|"
    r"unset|(?:re)?install|(?:up|down)grade|update|specify|provide|pass|add|select|choose|switch|"
    r"adjust|ensure|make sure|run|launch|omit|leave|drop|turn (?:it )?o|avoid|change|"
    r"replace|follow|restart|start the|rebuild|build with|configure|pin the|do not|don't|explicitly set|check (?:that|if|whether|your|the) |verify|re-?run with|"
    r"either (?:set|use|install|enable|disable|remove|increase|reduce|lower|decrease|pass))"
)
_GERUNDS = (
    r"(?:using|setting|increasing|decreasing|reducing|lowering|raising|disabling|enabling|"
    r"removing|installing|upgrading|updating|specifying|passing|adding|switching|adjusting|"
    r"running|omitting)"
)
_ENDS = re.compile(
    r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)\s+|\s(?=- )|(?<=[,:])\s+(?=please\b)|"
    r"(?<=[a-z]\.)(?=(?:Please|Try|Set|Use|Disable|Enable|Consider) )"
)
_LEAD = (
    r"(?i:(?:please|instead|otherwise|alternatively|hint:|you (?:can|may|must|should|need to|"
    r"have to)(?: also)?|(?:to|if|for|on|in|when) [^,]{1,140},|we recommend(?: to)?),?\s+){0,3}"
)
_REMEDY = re.compile(
    rf"^(?:- )?{_LEAD}{_VERBS}\b|"
    rf"\b(?i:fix|workaround|solution) is to {_VERBS}|\bmust (?:not )?use [`'\"]?--[a-z]|"
    rf"\b(?i:please|try|you (?:can|may|must|should|need to))(?: also| either)?,? {_VERBS}|"
    rf"\b(?i:try|consider|by) (?:explicitly )?{_GERUNDS}\b|"
    rf"(?:[,;]|\b(?i:or)|\band) {_VERBS} (?:the )?[`'\"]?(?:--[a-z]|VLLM_)|"
    rf"(?i:set) VLLM_\w{{3,60}}=|"
    r"(?<![\w-])[`'\"]?(?:--[a-z][a-z\d-]{2,60}|VLLM_[A-Z\d_]{3,60})[`'\"]? (?:must|should) be "
    r"(?:set|enabled|specified|passed|provided)\b|"
    r"\b(?:needs?|ha(?:s|ve)) to be (?:set|installed|enabled|disabled|specified|passed)\b|"
    r"\bpip3? install\b|^(?:- )?\w+, set\b|^Did you mean\b"
)
"""What a sentence begins with, or has in it, that states what to do."""
_NO_REMEDY = re.compile(
    r"\breport|file an? |open an issue|an issue (?:on|at)|raise an issue|VLLM_LOGGING_LEVEL|"
    r"NCCL_DEBUG|TORCHDYNAMO_|TORCH_LOGS|TORCH_USE_CUDA_DSA|TORCH_SHOW|_LAUNCH_BLOCKING|"
    r"AMD_SERIALIZE|stack ?trace|traceback|root cause|check the log|\blogs? (?:above|below|for)|"
    r"(?:more|further) (?:info|detail|debug)|^(?:please )?(?:see|refer|check|visit) (?:https?|the "
    r"(?:doc|log|error))|suppress_errors|VLLM_SKIP_WARMUP|let us know|contact|pytest|by this point|"
    r"(?<![\w/-])\.[a-z]\w{1,40}\(",
    re.IGNORECASE,
)
"""What only helps to look further, or is no sentence."""
_LOW = re.compile(r".{0,300}\b(?:please|pip install|try)\b")
"""Of a first sentence that begins with a small letter: it is no order otherwise."""
_NEGATED = re.compile(
    r"(?i)\b(?:not|n't|omit|omitting|disable|disabling|remove|removing|unset|without|avoid|leave|"
    r"drop|turn|or|instead of|from|either|cannot|using|except|unless|default)\b"
)
"""Where a sentence has one of these, no single value can be read of it."""
_OPTION = re.compile(
    r"(?<![\w-])--[a-z][a-z\d-]{2,60}(?:=[\w.]{0,40}\w)?|"
    r"\b(?:VLLM|CUDA|NCCL|TRITON|TORCH|PYTORCH|RAY|HABANA|PT)_[A-Z\d]{1,20}_[A-Z\d_]{1,60}\b"
    r"(?:=[\w./-]{0,40}\w)?|\bHF_[A-Z_]{4,30}\b|"
    r"\bpip3? install(?: -U| --upgrade)? (?:'[^']{2,160}'|\"[^\"]{2,160}\"|[\w.<>=~!\[\]-]{2,60})"
)
_OPTION_NAME = re.compile(r"--[a-z][a-z\d-]{2,60}")
_NAME = re.compile(r"(?<![\w.-])(?:--)?[a-z]{2,40}(?:[_-][a-z\d]{1,40}){1,8}(?![\w(-])")
_KIND = re.compile(r"^(?:[\w.]{1,120}:\s+)")
_QUOTING = re.compile(
    r"^Worker failed with error '|', please check the stack trace above.*$"
)
_OF_PYTHON = re.compile(
    r"requires? grad|missing \d{1,3} required|takes .{1,40}positional argument|multiple values for|"
    r"(?:unexpected|in) keyword argument|"
    r"object has no attribute|is not (?:subscriptable|iterable|callable)|"
    r"can only be called|get_current_vllm_config|only supports? [\w ]{0,30}\b[Tt]ensors?\b"
)
"""Texts of Python, of torch and of an engine about a call, which no setting answers."""
_INTERNAL = re.compile(
    r"by this point|during init\b|file an? |must be a dataclass|unsupported type|of the same type|"
    r"before calling|only be called|\bcontiguous\b|\b[Tt]ensors?\b(?![ _-]parallel)|must not be None|\bdtype must\b"
)
"""Texts of an engine about its own code."""
_BY_ENGINE = re.compile(
    r"^(?!(?:[\w.]{1,100}\.)?(?:Key|Attribute|Type|Name|Index|OS|Connection|Permission|Memory|Timeout|"
    r"Syntax|Recursion|Unicode\w{0,10}|FileExists|JSONDecode)Error: )[\w.]{1,100}(?:Error|Exception): "
)
_REQUIRES = re.compile(
    r"^(?P<subject>.{2,160}?) (?:currently |only |also )?(?<!not )(?<!we )(?:(?:requires?|needs?) (?!to )|"
    r"without (?=VLLM_\w{3,60}=))(?P<object>(?![\d.]{1,12} ?[KMGT]?i?B\b).{2,300})"
)
_IS_REQUIRED = re.compile(
    r"^(?P<object>(?:(?! but ).){2,120}?) (?:package |library )?(?P<subject>(?:is|are) required\b)(?! because| by)"
)
_REFUSES = re.compile(
    r"(?:(?:is|are) (?:not |only )(?:yet |currently |yet currently )?(?:supported|available|"
    r"applicable|valid|implemented|allowed)\b|"
    r"(?:is|are) supported only\b|(?<!may )not (?:yet |currently )?support\b|(?:is|are)n't supported\b|(?:currently )?(?:only|exclusively) supports?\b|"
    r"\bsupports? only\b|(?:is|are) (?:not (?:currently |yet )?|in)compatible with\b|(?:is|are) mutually exclusive|"
    r"cannot (?:both )?be (?:used|enabled|combined|set|paired|together)\b|cannot both\b|"
    r"\bonly (?:works?|one)\b|can only be\b|should only be set when\b|\bnot yet supported\b|"
    r"\bCannot (?:set|use|specify|enable|run|combine|have)\b|must be disabled|\bnot supported\b|"
    r"\bbut no .{1,80} supports\b|\bconflicts with\b|(?:is|are) unsupported (?:with|on|for|by|in)\b|"
    r"\b(?:was requested|is enabled),? but\b|\bdoes not satisfy\b|\bsupports? [^.,;]{1,60} only(?=\.?$)|"
    r"\bnot implemented (?:for|with|on|yet)\b)"
)
_EXCLUSIVE = re.compile(r"(\S{3,80}) and (\S{3,80}) are mutually exclusive")
"""Two names of one setting, or two settings."""
_MUST = re.compile(
    r"\b(?:[Mm]ust|should|has to|have to|needs? to|cannot|can not|can't|may not|expected|Expected|"
    r"at least|at most|exceeds|requires?|out of range|Invalid|invalid|Unknown|unknown|"
    r"Unsupported|unsupported|not a valid|not set|not provided|not divisible|conflict\w{0,3}|without|"
    r"[Oo]nly one|more than one|do not fit|not found|unless|enough)\b"
)
_UNKNOWN = re.compile(
    r"(?:Unknown|Unsupported|Unrecognized|Invalid) (?:(?P<name>[a-z]{2,40}(?:_[a-z]{1,40}){1,4})|"
    r"(?P<kind>[\w ]{0,40}\b[Bb]ackend)):"
)
"""A value that is not there, of a setting or of something that is chosen."""
_ANY_NAME = (
    r"(?P<name>(?<![\w-])--[a-z][a-z\d-]{2,60}|(?<![\w.])[a-z][a-z\d]{1,39}(?:_[a-z\d]{1,40}){1,6}|"
    r"\b(?:VLLM|CUDA|HIP|NCCL|HF|TRITON|TORCH|PYTORCH|PT|RAY|HABANA|FLASHINFER|UCX|TPU|OMP)"
    r"(?:_[A-Z\d]{1,30}){1,9}|\b(?:TP|PP|DP|DCP|PCP)(?:_SIZE)?(?=\s?[=<>]|\sto be \d))\b[`']?"
)
_NO_SUCH = re.compile(r"\b(?i:unknown|unsupported|invalid|unrecognized)\b")
_LISTED = re.compile(
    r"\b(?i:supported|valid|available|allowed|registered|only support)\b[\w ]{0,30}"
    r"(?:\bare\b|\bis\b|:|=)"
)
"""A value that is not there, and those that are."""
_LIMITED = re.compile(
    rf"(?:.{{0,80}}?[\s`'])??(?<![+*/] )(?<![+*/] [`']){_ANY_NAME}"
    r"(?:\s?[=(:]\s?['\"]?[\w./-]{1,60}['\"]?\)?| \d{1,9}| '[^']{0,60}')? (?P<limit>"
    r"(?:was|is|were) not (?:provided|specified|given)\b|"
    r"(?:(?:must|should|has to|needs to|can only|cannot|can't|can not|may not) "
    r"(?:not |both )?(?:be|contain|have|match|equal|exceed)|exceeds)\b[^;]{1,160}?"
    r"(?=[.;](?:\s|$)|,? (?:but )?got\b|$))"
)
"""A name and what its value must be, or that it has none."""
_EXACT = re.compile(
    r"(?:(?:must|should|has to|can only) be(?: set to| equal to)?|cannot be other (?:value )?than) "
    r"['\"]?(?P<value>\d{1,9}|True|False)['\"]?"
    r"(?=,? (?:but|when|if|for|in|on|here|with|where|to [a-zA-Z]{1,20}|or (?:equal|the|target|None))\b|[.,;]?$)|"
    r"exceeds [^=(]{1,60}[=(](?P<most>[1-9]\d{0,8})\b"
)
"""A limit that is one value, or the most."""
_NO_VALUE = (
    r"(?!(?:a|an|at|one|any|all|in|both|either|the|first|too|together|instead|explicitly|"
    r"set|used|enabled|disabled|specified|provided|passed|given|configured|installed|"
    r"option|argument|flag|parameter|environment|variable)\b)"
)
"""Words of a sentence, which may stand behind a name as a value does."""
_GIVEN = re.compile(
    rf"{_ANY_NAME}(?:(?:\s?==?\s?[`'\"]?|(?: to be)? set to [`'\"]?{_NO_VALUE}|"
    r" to (?=[`'\"])[`'\"]| (?:to|must) be (?=[`'\"\d-]|(?i:true|false|none)\b)[`'\"]?)(?P<value>[\w./-]{0,39}\w)|"
    r"\s?(?P<relation>[<>]=?)\s?(?P<bound>\d{1,9})(?![\d\s]*[+*/-])|"
    rf" {_NO_VALUE}(?P<spaced>\d{{1,9}}|[a-z\d_]{{2,40}})(?=[`'\"),.;]| or |$))?"
)
"""A setting that has to be there, with its value or the bound of it."""
_GOES_ON = re.compile(r"\s?[<>=+*]|(?:,|,? or) ['\"]?\d")
"""Behind what was read of a setting: what it has to be is more than that."""
_FILLING = re.compile(
    r"(?i)\b(?:to|be|is|are|and|or|the|a|an|with|enabled|used|active|decoding)\b|[\s.,]{1,9}"
)
"""What is left of a requirement that has nothing but words for features."""
_GIVEN_ONCE = re.compile(
    r"\b(?:CUDA|ROCm|XPU|HPU|TPU|CPU|NVIDIA|AMD|Intel|GPUs?|models)\b"
)
"""What a start has or has not: its platform, device or model."""
_GOT = re.compile(r",? (?:but )?\(?got |; got |, ?but ")
"""Before what there is instead of what has to be."""
_DOTTED = re.compile(
    r"(?<![\w.-])((?:attention|compilation|kernel|speculative|eplb|profiler|structured_outputs|"
    r"kv_transfer|ec_transfer|pooler|quantization)_config\.[a-z_\d]{2,40})\b"
)
"""A key of an option's value, as vLLM takes it on the command line as well."""
_SETTING = r"([a-z][a-z\d]{1,39}(?:_[a-z\d]{1,40}){1,6})"
_VALUE = re.compile(rf"{_SETTING}=['\"]?([\w./-]{{1,60}})")
"""A setting and its value, with which a refusal begins."""
_BEGINS = re.compile(rf"{_SETTING} ")
"""A setting with which a refusal begins."""
_QUOTED_NAME = re.compile(rf"[`']{_SETTING}[`']")
_INSTALL = re.compile(
    r"\bpip3? install\b|\b(?:re)?install(?:ed|ing)?\b|\bupgrad(?:e|ing)\b|\bdowngrade\b",
    re.IGNORECASE,
)
_DEVICE = re.compile(
    r"[Cc]ompute capability|\b[Ss][Mm]_?\d{2,3}\b|\bgfx\d{3,4}|\bcapability \d|device[ _]capability|"
    r"(?:current|this|your) (?:device|GPU|platform|architecture)\b|\b(?:Hopper|Blackwell|Ampere|Turing|Volta)\b"
)
"""What a text names of a device."""
_QUANTISED = re.compile(
    r"(?i)\b(?:(?:nv|mx)?fp[48]|mx(?:fp)?\d|u?int[48](?:b\d)?|w\d{1,2}a\d{1,2}|quantiz\w{1,6}|weight_bits)\b"
)
_PENDING = re.compile(r"(?i)\b(?:currently|not (?:yet )?implemented|not yet)\b")
"""Where a text has this, a later build may have what is missing."""
_LIBRARIES = ("VLLM_ROCM_USE_AITER", "VLLM_USE_FLASHINFER", "VLLM_USE_DEEP_GEMM")
"""What the settings begin with of libraries of kernels, which have others beside them."""
CONFIGURING = ("configure", "import")
"""Stages in which an engine does nothing but read its settings."""
OWN_CHOICE = Way(
    "no choice of your own of a backend or kernel: no --attention-backend "
    "(VLLM_ATTENTION_BACKEND in older versions), --moe-backend, --linear-backend or "
    "VLLM_USE_..., where one is set",
    "the engine picks one that fits, where there is one",
)
OTHER_DEVICE = Way(
    "a device that can do it, in CUDA_VISIBLE_DEVICES where the host has several kinds "
    "(CUDA_DEVICE_ORDER=PCI_BUS_ID counts them as nvidia-smi does)",
    "other devices",
)
OTHER_RELEASE = Way(
    "another release of vLLM or its plugin: a newer one, or the one that last started this "
    "model",
    "another image; an error of a release is in its list of issues",
)


def text_of(message: str) -> str:
    """The text of an error on one line, without its kind and what quotes it."""
    text = " ".join(message[:MAX_TEXT].split())
    while (match := _KIND.match(text)) and match[0].endswith(
        ("Error: ", "Exception: ")
    ):
        text = text[match.end() :]
    return _QUOTING.sub("", text)


def remedies(message: str) -> list[str]:
    """The sentences of a message that state what to do, as they are; those that only help to
    look further are none."""
    first, *others = _ENDS.split(text_of(message))
    begins_low = first[:1].islower() and _LOW.match(first) is None
    return [
        sentence
        for sentence in ([] if begins_low else [first]) + others
        if _REMEDY.search(sentence) and not _NO_REMEDY.search(sentence)
    ]


def named_options(text: str) -> list[str]:
    """Options, variables and packages to be installed, in their order."""
    return [match[0] for match in _OPTION.finditer(text)]


def present(text: str, config: Mapping[str, Value]) -> str:
    """What the run has for the settings that a text names: `; now a=1, b=2`, or nothing."""
    found: dict[str, Value] = {}
    for match in _NAME.finditer(text):
        name = match[0].removeprefix("--").replace("-", "_")
        value = config.get(name)
        if value is not None and value != "None" and len(str(value)) <= MAX_VALUE:
            found[name] = value
    shown = ", ".join(f"{name}={value}" for name, value in list(found.items())[:4])
    return f"; the run has {shown}" if shown else ""


def quoted(sentences: list[str]) -> str:
    """Sentences in quotation marks, cut where they are long."""
    text = " ".join(sentences)
    if len(text) > MAX_QUOTE:
        text = f"{text[:MAX_QUOTE].rpartition(' ')[0]} …"
    return f"“{text.strip()}”"


def remedy_way(message: str, config: Mapping[str, Value]) -> Way | None:
    """The remedy that a message states, with the value where it states one alone."""
    sentences = remedies(message)
    if not sentences:
        return None
    text = " ".join(sentences)
    options = named_options(text)
    first = "the remedy that the error states"
    changes: Mapping[str, Value] = {}
    if len(options) == 1 and not _NEGATED.search(text):
        is_package = options[0].startswith("pip")
        given_in = () if is_package else _GIVEN.finditer(text)
        match = next((m for m in given_in if m["name"] in options[0]), None)
        given = _given(match, config) if match else Way(options[0])
        first, changes = f"{given.suggestion}, as the error states", given.changes
    return Way(
        f"{first}: {quoted(sentences)}{present(message, config)}",
        "what the text states",
        changes,
    )


def missing_remedy(
    message: str, ways: list[Way], config: Mapping[str, Value]
) -> Iterator[Way]:
    """The remedy that a message states, where it names an option that no way has."""
    way = remedy_way(message, config)
    if way is None:
        return
    known = " ".join(other.suggestion for other in ways).lower().replace("_", "-")
    names = [
        name.lower().replace("_", "-").lstrip("-").partition("=")[0]
        for name in named_options(" ".join(remedies(message)))
    ]
    if names and not any(name in known for name in names):
        yield way


_OF_OTHERS = re.compile(r"Reasons: \{.{0,2000}")
"""Why each backend is none for a start, in a message: it names libraries that are not in use."""


_LEAVES_FLASHINFER = re.compile(r"(?:those of|than) FlashInfer\b")
"""A way that has other kernels instead."""


def without_library(
    text: str, ways: Iterable[Way], config: Mapping[str, Value]
) -> list[Way]:
    """The library of kernels that a text names turned off, where no way has that yet."""
    known = " ".join(way.suggestion for way in ways)
    named = named_features(_OF_OTHERS.sub("", text), config)
    libraries = [f for f in named if f.setting.startswith(_LIBRARIES)]
    if _LEAVES_FLASHINFER.search(known):
        return []
    return [f.way(config) for f in libraries[:1] if f.setting not in known]


def named_features(text: str, config: Mapping[str, Value]) -> list[Feature]:
    """Features that a text names and that the run may have and do without: those it has
    first; names of options are no words for features."""
    text = _VALUE.sub(r"\1", _OPTION_NAME.sub("", text))
    found = [
        feature
        for feature in FEATURES
        if re.search(feature.pattern, text)
        and feature.may_be_on(config)
        and not (feature.setting == V2_RUNNER and needs_v2_runner(config))
    ]
    return sorted(found, key=lambda feature: not feature.is_on(config))


def refuses_feature(message: str) -> bool:
    """Whether a text refuses a feature by its name, or has a remedy that is about one."""
    text = text_of(message)
    refused = _REFUSES.search(text)
    is_whole = refused is not None and "only" not in refused[0].lower()
    about = text if is_whole else " ".join(remedies(message))
    return bool(named_features(about, {}))


def _only_features(text: str) -> list[Feature]:
    """The features that are all of what a text requires; none where it has other words."""
    features, left = named_features(text, {}), text
    for feature in features:
        left = re.sub(rf"(?:{feature.pattern})[a-z]{{0,9}}", "", left)
    is_all = all(f.required for f in features) and not _FILLING.sub("", left)
    return features if is_all else []


def statement(
    message: str, stage: str, config: Mapping[str, Value]
) -> Statement | None:
    """What a message states, in a stage, the surest first; None where it states nothing of
    use."""
    found = _sentence(message, stage, config)
    return found or _refused_value(message, stage, config)


def _sentence(
    message: str, stage: str, config: Mapping[str, Value]
) -> Statement | None:
    """A remedy, a refusal or a requirement in a sentence of a message."""
    text = text_of(message)
    if _OF_PYTHON.search(text) or not text:
        return None
    is_configuring = stage in CONFIGURING
    refused = _REFUSES.search(text)
    way = remedy_way(message, config)
    if way is not None:
        return _with_remedy(way, message)
    if not _BY_ENGINE.search(message) and not named_options(text):
        return None
    match = _REQUIRES.search(text) or _IS_REQUIRED.search(text)
    if refused and match and match.start("object") < refused.start():
        refused = None
    if (refused or match) and not is_configuring and _DEVICE.search(text):
        return _of_the_device(text, refused, match, config)
    if refused is not None:
        return _refusal(
            text, _of_refusal(text, refused, config), config, is_configuring
        )
    is_of_code = message.startswith("RuntimeError") and not named_options(text)
    if match is not None and (is_configuring or not is_of_code):
        return _requirement(match, text, config, is_configuring)
    return None


def _refused_value(
    message: str, stage: str, config: Mapping[str, Value]
) -> Statement | None:
    """What a message states of a value: of a setting by its name, of anything where the engine
    does nothing but read settings."""
    title, text = "The engine refuses a value", text_of(message)
    if not _BY_ENGINE.search(message) or _OF_PYTHON.search(text):
        return None
    if _NO_SUCH.search(text, 0, 100) and _LISTED.search(text):
        listed = "one of those that the message lists, or a newer version that has it"
        way = Way(f"{listed}{present(message, config)}")
        return Statement("setting_refused", "The engine has no such value", (way,))
    unknown = _no_such_value(text, config)
    if unknown is not None:
        return Statement("setting_refused", "The engine has no such value", (unknown,))
    if _INTERNAL.search(text):
        return None
    is_configuring = stage in CONFIGURING
    named = _LIMITED.match(text)
    if named and (is_configuring or is_setting(named["name"], config)):
        way = _within(named["name"], named["limit"].strip(), text, config)
        return Statement("setting_refused", title, (way,))
    if not is_configuring or not _MUST.search(text):
        return None
    way = Way(
        "the setting, or the value in the files of the model, as the error states: "
        f"{quoted([text])}{present(text, config)}"
    )
    return Statement("setting_refused", title, (way,))


def _no_such_value(text: str, config: Mapping[str, Value]) -> Way | None:
    """Another value of the setting or feature that a text begins with, where it lists none."""
    match = _UNKNOWN.match(text)
    if match is None:
        return None
    if match["name"] and is_setting(match["name"], config):
        return Way(f"another {place_of(match['name'], config)}", "what it does")
    kind = match["kind"] or ""
    ways = _ways_of_features(f"{kind} {kind.replace(' ', '_')}", config)
    return next(iter(ways), None)


def _within(name: str, limit: str, text: str, config: Mapping[str, Value]) -> Way:
    """A setting with a value that keeps its limit."""
    exact = _EXACT.match(limit)
    if exact is not None:
        return _one_value_of(name, exact["value"] or exact["most"], config)
    return Way(f"{place_of(name, config)}, which {limit}{present(text, config)}")


def _with_remedy(way: Way, message: str) -> Statement:
    stated = " ".join(remedies(message))
    named = [name for name in named_options(stated) if not name.startswith("pip")]
    if _INSTALL.search(stated) and not named:
        title = "Something that the engine needs is missing or too old"
        return Statement("missing_tool", title, (way,))
    return Statement("setting_refused", "The error states its remedy", (way,))


def _of_refusal(
    text: str, refused: re.Match[str], config: Mapping[str, Value]
) -> list[Way]:
    """What a refusal names, left out; behind `only` stands what has to be there."""
    is_only = "only" in refused[0].lower() and "one" not in refused[0]
    sentence = next((s for s in _ENDS.split(text) if refused[0] in s), text)
    subject = sentence.partition(refused[0])[0] if is_only else sentence
    needed = sentence.partition(refused[0])[2] if is_only else ""
    before, _, lacking = sentence.partition(" without ")
    wanted = needed_settings(lacking, config, by_words=False)
    if wanted:
        return [*wanted, *_left_out(before, config)]
    exclusive = _EXCLUSIVE.search(sentence)
    if exclusive is not None and _has_setting(exclusive, config):
        return [
            Way(f"one of {exclusive[1]} and {exclusive[2]} left out", "what it does")
        ]
    own = _left_out(subject, config)
    names = _QUOTED_NAME.findall(subject)
    if len(names) > 1 and not is_only:
        own.append(Way(f"one of {' and '.join(names[:3])} left out", "what it does"))
    return _with_needed(
        needed, own, config, is_whole=re.search(r"supports?\b", refused[0]) is None
    )


def _has_setting(match: re.Match[str], config: Mapping[str, Value]) -> bool:
    """Whether one of the two names is that of a setting."""
    is_key = _DOTTED.search(match[0]) is not None
    return is_key or any(is_setting(name, config) for name in match.groups())


def _with_needed(
    needed: str,
    others: list[Way],
    config: Mapping[str, Value],
    *,
    is_whole: bool = True,
) -> list[Way]:
    """What has to be there before what else is a way out: the settings that it names, or its
    words. By the words for features only where all of it has to be there."""
    needed = _GOT.split(needed)[0].strip(" .;")
    if not needed:
        return others
    found = [
        way
        for way in needed_settings(needed, config, by_words=is_whole)
        if way not in others
    ]
    words = Way(f"what the error requires: {quoted([needed])}{present(needed, config)}")
    if not found and _GIVEN_ONCE.search(needed):
        return [*others, words]
    return [*found, *others] if found else [words, *others]


def _left_out(text: str, config: Mapping[str, Value]) -> list[Way]:
    """Settings and features that a text names, each left out."""
    own = []
    value = _VALUE.match(text)
    for name in named_options(text):
        if name.startswith("--"):
            own.append(Way(f"no {name.partition('=')[0]}", "what it does"))
        elif "=" in name or text.startswith(name):
            own.append(Way(f"{name.partition('=')[0]} unset", "what it does"))
    setting = _BEGINS.match(text)
    if setting is not None and is_setting(setting[1], config):
        own.append(Way(f"no {place_of(setting[1], config)}", "what it does"))
    if value is not None and not value[1].startswith("is_"):
        own.append(Way(f"another {value[1]} than {value[2]}", "what it does"))
    known = " ".join(way.suggestion for way in own).replace("_", "-")
    more = [
        way
        for way in _ways_of_features(text, config)
        if way.suggestion.removeprefix("no ").split()[0].strip("-,") not in known
    ]
    keys = [f"no --{m[1].replace('_', '-', 1)}" for m in _DOTTED.finditer(text)]
    return own[:3] + more + [Way(key, "what it does") for key in keys[:2]]


def needed_settings(
    text: str, config: Mapping[str, Value], *, by_words: bool = True
) -> list[Way]:
    """The settings that a text requires, as they are given: by their names and values, else by
    the words for features, where it has no others. None where a part of it is no setting. All
    of them are one way, unless the text has an `or`."""
    found: dict[str, Way] = {}
    for match in _GIVEN.finditer(text):
        is_whole = match["name"].startswith("--") or match["name"].isupper()
        has_value = bool(match["value"] or match["relation"])
        is_known = is_setting(match["name"], config)
        if _GOES_ON.match(text, match.end()) or (has_value and not is_known):
            return []
        if is_known and (is_whole or has_value):
            found.setdefault(engine_name(match["name"]), _given(match, config))
    if by_words and not found:
        for feature in _only_features(text):
            if not feature.is_on(config):
                found[feature.setting] = Way(feature.required, "what it does")
    ways = list(found.values())[:3]
    if len(ways) > 1 and " or " not in text:
        ways = [Way(" and ".join(way.suggestion for way in ways), "what they do")]
    ends = [f", as the error requires{present(way.suggestion, config)}" for way in ways]
    return [
        replace(way, suggestion=way.suggestion + end)
        for way, end in zip(ways, ends, strict=True)
    ]


def _given(match: re.Match[str], config: Mapping[str, Value]) -> Way:
    """One setting that has to be there."""
    place = place_of(match["name"], config)
    value, relation = match["value"] or match["spaced"], match["relation"]
    if relation:
        return Way(f"{place} {relation} {match['bound']}", "what it does")
    if value is None:
        return Way(place, "what it does")
    return _one_value_of(match["name"], value, config)


def _of_the_device(
    text: str,
    refused: re.Match[str] | None,
    required: re.Match[str] | None,
    config: Mapping[str, Value],
) -> Statement:
    """A kernel that does not run on the device, or for which the build has none."""
    if refused is not None:
        ways = _of_refusal(text, refused, config)
    elif required is not None:
        needed = quoted([_needed(required)])
        ways = _left_out(required["subject"], config)
        ways.append(Way(f"what the error requires: {needed}", "another device"))
    else:
        ways = []
    if _PENDING.search(text):
        ways = [OTHER_BUILD, *ways]
    if _QUANTISED.search(text):
        ways.append(OTHER_WEIGHTS)
    return Statement(
        "device_unsupported",
        "The device lacks what a kernel needs, or the build has none for it",
        (*ways, OWN_CHOICE, OTHER_BUILD, OTHER_DEVICE, OTHER_RELEASE),
    )


def _ways_of_features(text: str, config: Mapping[str, Value]) -> list[Way]:
    return [feature.way(config) for feature in named_features(text, config)][:4]


def _refusal(
    text: str, ways: list[Way], config: Mapping[str, Value], is_configuring: bool
) -> Statement | None:
    """A combination, or something that a model, device or version does not have; None where
    only code that no setting chooses is named."""
    if not ways and not is_configuring:
        return None
    rest = Way(
        "one of those that the message names left out, or what it needs as well"
        f"{present(text, config)}",
        "what it does; another version may have both",
    )
    return Statement(
        "setting_refused", "The engine refuses a combination of settings",
        (*ways, rest, *([] if is_configuring else [OTHER_RELEASE])),
    )  # fmt: skip


def _needed(match: re.Match[str]) -> str:
    """What is required, without sentences before or behind it."""
    is_behind = match.start("subject") < match.start("object")
    return _ENDS.split(match["object"])[0 if is_behind else -1].rstrip(";.")


def _requirement(
    match: re.Match[str], text: str, config: Mapping[str, Value], is_configuring: bool
) -> Statement | None:
    """Something that has to be there, and what needs it left out; None where both are code
    that no setting chooses."""
    needed = _needed(match)
    ways = _with_needed(needed, _left_out(match["subject"], config), config)
    is_named = len(ways) > 1 or _OPTION.search(needed) or named_features(needed, config)
    if not (is_configuring or is_named or needed_settings(needed, config)):
        return None
    return Statement(
        "setting_refused", "The engine requires something that the run lacks",
        (*ways, *([] if is_configuring else [OTHER_RELEASE])),
    )  # fmt: skip


def _one_value_of(name: str, value: str, config: Mapping[str, Value]) -> Way:
    """One setting with one value, at its place in the command; of a variable it is a text."""
    place, setting = place_of(name, config), engine_name(name)
    key, _, option = place.partition(" in ")
    is_number = value.isdecimal() and not setting.isupper()
    own: Value = int(value) if is_number else value
    if option.startswith("--"):
        return Way(f"{key} {value} in {option}", "none", {key: own})
    if value.lower() in ("true", "false") and place.startswith("--"):
        no = "" if value.lower() == "true" else "no-"
        return Way(f"--{no}{place[2:]}", "what it does", {setting: value})
    if place.startswith("--") or setting.isupper():
        text = f"{setting}={value}" if setting.isupper() else f"{place} {value}"
        return Way(text, "what the other value does", {setting: own})
    return Way(f"{place}: {value}", "what it does", {name: own})
