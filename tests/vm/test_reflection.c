/* Tests of the instruction table in the public API. */
#include "tests/vm/support.h"
#include "ops/table/table.h"

START_TEST(all_instructions)
{
    size_t rows = 0;
    xcvm_op_info op;
    xcvm_operand_info operand;
    for (int64_t number = 0; number < XCVM_OPCODE_LIMIT; number++)
        rows += xcvm_schema_of(number) != NULL;
    ck_assert_uint_eq(xcvm_op_count(), rows);
    for (size_t i = 0; i < rows; i++) {
        ck_assert(xcvm_op_at(i, &op));
        ck_assert_int_eq(xcvm_schema_named(op.name, strlen(op.name))->opcode, op.number);
        ck_assert_uint_gt(strlen(op.summary), 0);
        for (size_t k = 0; k < op.operand_count; k++) {
            ck_assert(xcvm_op_operand_at(i, k, &operand));
            ck_assert_uint_gt(strlen(operand.name), 0);
            /* The text is complete, and at its position. */
            ck_assert_uint_lt(strlen(operand.types), sizeof operand.types - 1);
            ck_assert_uint_lt(strlen(operand.choices), sizeof operand.choices - 1);
            ck_assert_int_eq(operand.types[0] != '\0', strcmp(operand.role, "attribute") != 0);
        }
        ck_assert(!xcvm_op_operand_at(i, op.operand_count, &operand));
    }
    ck_assert(!xcvm_op_at(rows, &op));
    ck_assert(!xcvm_op_operand_at(rows, 0, &operand));
}
END_TEST

static size_t index_of(const char *name)
{
    xcvm_op_info op;
    size_t i = 0;
    while (xcvm_op_at(i, &op) && strcmp(op.name, name) != 0)
        i++;
    ck_assert_uint_lt(i, xcvm_op_count());
    return i;
}

START_TEST(operands)
{
    xcvm_operand_info operand;
    ck_assert(xcvm_op_operand_at(index_of("Clip"), 0, &operand));
    ck_assert_str_eq(operand.role, "output");
    ck_assert(xcvm_op_operand_at(index_of("Clip"), 2, &operand));
    ck_assert_str_eq(operand.name, "min");
    ck_assert_str_eq(operand.role, "input");
    ck_assert_str_eq(operand.kind, "tensor");
    ck_assert(operand.optional);
    ck_assert(xcvm_op_operand_at(index_of("Pad"), 5, &operand));
    ck_assert_str_eq(operand.choices, "constant|reflect|edge|wrap");
    ck_assert(xcvm_op_operand_at(index_of("MatMul"), 1, &operand));
    ck_assert(strstr(operand.types, "f32") != NULL && strstr(operand.types, "str") == NULL);
    ck_assert(xcvm_op_operand_at(index_of("Elu"), 2, &operand));
    ck_assert_str_eq(operand.kind, "float");
    ck_assert_str_eq(operand.choices, "1");
}
END_TEST

/* Returns true if a gradient can enter through a result, or leave through an operand. */
static bool may_be_float(const xcvm_schema *schema, bool results)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
        if ((results ? field->role == XCVM_ROLE_OUT : xcvm_field_is_input(field)) &&
            (xcvm_field_types(schema, field) & XCVM_TYPES_FLOAT) != 0)
            return true;
    }
    return false;
}

static size_t count_rule(const char *rule)
{
    xcvm_op_info op;
    size_t count = 0;
    for (size_t i = 0; xcvm_op_at(i, &op); i++)
        count += strcmp(op.gradient, rule) == 0;
    return count;
}

START_TEST(gradients)
{
    xcvm_op_info op;
    for (size_t i = 0; xcvm_op_at(i, &op); i++) {
        const xcvm_schema *schema = xcvm_schema_of(op.number);
        const bool zero = strcmp(op.gradient, "zero") == 0, none = strcmp(op.gradient, "none") == 0;
        /* The name of a rule is that of the instruction, or of a family in lower case. */
        if (!zero && !none && strcmp(op.gradient, op.name) != 0) {
            ck_assert_msg(op.gradient[0] >= 'a' && op.gradient[0] <= 'z', "%s: rule %s", op.name, op.gradient);
            ck_assert_msg(count_rule(op.gradient) > 1, "%s alone has rule %s", op.name, op.gradient);
        }
        if (!zero && !none)
            ck_assert_msg(may_be_float(schema, true) && may_be_float(schema, false), "%s: rule %s", op.name,
                          op.gradient);
        ck_assert_msg(schema->effect != XCVM_CONTROL || none, "%s: gradient %s", op.name, op.gradient);
        ck_assert_int_eq(zero, schema->gradient.zero || schema->gradient.step != NULL);
        ck_assert_int_eq(none, schema->gradient.rule == NULL && !zero);
    }
}
END_TEST

START_TEST(gradients_of_some)
{
    static const struct {
        const char *name, *gradient;
    } known[] = {{"MatMul", "MatMul"},    {"ReduceL2", "ReduceL2"}, {"Flatten", "reshape"},   {"Cast", "Cast"},
                 {"Hardmax", "zero"},     {"Equal", "zero"},        {"ArgMax", "zero"},       {"RandomNormal", "zero"},
                 {"BlockedConv", "none"}, {"Jmp", "none"},          {"HostCall", "HostCall"}, {"TreeEnsemble", "none"},
                 {"QLinearConv", "none"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        xcvm_op_info op;
        ck_assert(xcvm_op_at(index_of(known[i].name), &op));
        ck_assert_str_eq(op.gradient, known[i].gradient);
    }
}
END_TEST

Suite *suite_vm_reflection(void);
Suite *suite_vm_reflection(void)
{
    return SUITE_OF("vm_reflection", all_instructions, operands, gradients, gradients_of_some);
}
