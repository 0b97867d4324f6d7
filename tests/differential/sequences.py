"""Sequences and optionals; they are made and taken apart in the model, so that inputs and outputs are tensors."""
from table import operator

KINDS = ["f32", "f64", "i32", "i64", "bool", "str", "u8"]


def items(case, kind, same=False):
    shape = case.shape(limit=200)
    count = case.integer(1, 5)
    shapes = [shape if same else case.shape(rank=len(shape), limit=200) for _ in range(count)]
    return shapes, [case.feed(case.values(dims, kind), kind) for dims in shapes]


@operator("SequenceConstruct", 11)
def sequence_construct(case):
    kind = case.choice(KINDS)
    _, names = items(case, kind)
    case.output(case.node("SequenceConstruct", names))


@operator("SequenceAt", 11)
def sequence_at(case):
    kind = case.choice(KINDS)
    _, names = items(case, kind)
    index = case.integer(-len(names), len(names) - 1)
    case.output(case.node("SequenceAt", [case.node("SequenceConstruct", names), case.setting(index, case.choice(["i32", "i64"]), 0)]), kind)


@operator("SequenceInsert", 11, weight=2)
def sequence_insert(case):
    kind = case.choice(KINDS)
    shapes, names = items(case, kind)
    number = {"f32": 1, "f64": 11, "i32": 6, "i64": 7, "bool": 9, "str": 8, "u8": 2}[kind]
    sequence = case.node("SequenceEmpty", [], dtype=number) if case.chance(0.4) else case.node("SequenceConstruct", names)
    count = 0 if case.nodes[-1].op_type == "SequenceEmpty" else len(names)
    for _ in range(case.integer(1, 4)):
        new = case.feed(case.values(case.shape(rank=len(shapes[0]), limit=50), kind), kind)
        operands = [sequence, new]
        if case.chance(0.6):
            operands.append(case.setting(case.integer(-count, count), rank=0))
        sequence = case.node("SequenceInsert", operands)
        count += 1
    if case.chance(0.4):
        sequence = case.node("SequenceErase", [sequence] + ([case.setting(case.integer(-count, count - 1), rank=0)] if case.chance(0.6) else []))
        count -= 1
    case.output(case.node("SequenceLength", [sequence]), "i64")
    if count and case.chance(0.5):
        case.output(sequence)
    elif count:
        case.output(case.node("SequenceAt", [sequence, case.setting(case.integer(-count, count - 1), rank=0)]), kind)


@operator("SplitToSequence", 11, weight=2)
def split_to_sequence(case):
    kind = case.choice(["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1, zero=0, limit=300)
    axis = case.axis(len(shape))
    operands = [case.feed(case.values(shape, kind), kind)]
    keep = None
    how = case.integer(0, 2)
    if how == 0:
        keep = case.choice([None, 0, 1])
    elif how == 1:
        operands.append(case.setting(case.integer(1, shape[axis]), rank=0))
    else:
        sizes = [1] * shape[axis] if shape[axis] < 4 else [1, shape[axis] - 3, 2]
        operands.append(case.setting(sizes))
    sequence = case.node("SplitToSequence", operands, axis=axis, keepdims=keep)
    if case.chance(0.5):
        case.output(sequence)
    case.output(case.node("SequenceLength", [sequence]), "i64")


@operator("ConcatFromSequence", 11)
def concat_from_sequence(case):
    kind = case.choice(["f32", "f64", "i32", "i64", "bool"])
    shapes, names = items(case, kind, True)
    new = case.chance(0.5) or not shapes[0]
    rank = len(shapes[0]) + new
    axis = case.integer(-rank, rank - 1)
    case.output(case.node("ConcatFromSequence", [case.node("SequenceConstruct", names)], axis=axis, new_axis=1 if new else case.choice([None, 0])), kind)


@operator("Optional", 15)
def optional(case):
    kind = case.choice(["f32", "i64", "bool"])
    x = case.feed(case.values(case.shape(limit=100), kind), kind)
    wrapped = case.node("Optional", [x])
    case.output(case.node("OptionalHasElement", [wrapped]), "bool")
    case.output(case.node("OptionalGetElement", [wrapped]), kind)
