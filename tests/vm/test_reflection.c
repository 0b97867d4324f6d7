#include "tests/vm/support.h"

START_TEST(all_instructions)
{
    size_t rows = 0;
    xcvm_op_info op;
    xcvm_operand_info operand;
    for (int64_t number = 0; number < XCVM_OPCODE_LIMIT; number++)
        rows += xcvm_row_of(number) != NULL;
    ck_assert_uint_eq(xcvm_op_count(), rows);
    for (size_t i = 0; i < rows; i++) {
        ck_assert(xcvm_op(i, &op));
        ck_assert_int_eq(xcvm_row_named(op.name, strlen(op.name))->opcode, op.number);
        ck_assert_uint_gt(strlen(op.sentence), 0);
        for (size_t k = 0; k < op.operand_count; k++) {
            ck_assert(xcvm_op_operand(i, k, &operand));
            ck_assert_uint_gt(strlen(operand.name), 0);
            /* Whole, and where it belongs. */
            ck_assert_uint_lt(strlen(operand.types), sizeof operand.types - 1);
            ck_assert_uint_lt(strlen(operand.choices), sizeof operand.choices - 1);
            ck_assert_int_eq(operand.types[0] != '\0', strcmp(operand.role, "attribute") != 0);
        }
        ck_assert(!xcvm_op_operand(i, op.operand_count, &operand));
    }
    ck_assert(!xcvm_op(rows, &op));
    ck_assert(!xcvm_op_operand(rows, 0, &operand));
}
END_TEST

static size_t index_of(const char *name)
{
    xcvm_op_info op;
    size_t i = 0;
    while (xcvm_op(i, &op) && strcmp(op.name, name) != 0)
        i++;
    ck_assert_uint_lt(i, xcvm_op_count());
    return i;
}

START_TEST(operands)
{
    xcvm_operand_info operand;
    ck_assert(xcvm_op_operand(index_of("Clip"), 0, &operand));
    ck_assert_str_eq(operand.role, "output");
    ck_assert(xcvm_op_operand(index_of("Clip"), 2, &operand));
    ck_assert_str_eq(operand.name, "min");
    ck_assert_str_eq(operand.role, "input");
    ck_assert_str_eq(operand.kind, "tensor");
    ck_assert(operand.optional);
    ck_assert(xcvm_op_operand(index_of("Pad"), 5, &operand));
    ck_assert_str_eq(operand.choices, "constant|reflect|edge|wrap");
    ck_assert(xcvm_op_operand(index_of("MatMul"), 1, &operand));
    ck_assert(strstr(operand.types, "f32") != NULL && strstr(operand.types, "str") == NULL);
    ck_assert(xcvm_op_operand(index_of("Elu"), 2, &operand));
    ck_assert_str_eq(operand.kind, "float");
    ck_assert_str_eq(operand.choices, "1");
}
END_TEST

Suite *suite_vm_reflection(void);
Suite *suite_vm_reflection(void) { return SUITE_OF("vm_reflection", all_instructions, operands); }
