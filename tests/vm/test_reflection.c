#include "tests/vm/support.h"

/* The constant texts agree with the table that everything else is driven by. */
static void check_operand(const xcvm_row *row, const xcvm_field *field, const xcvm_operand_info *operand)
{
    char types[512];
    ck_assert_str_eq(operand->name, field->name);
    if (field->role == XCVM_ROLE_ATTRIBUTE) {
        ck_assert_str_eq(operand->role, "attribute");
        ck_assert_str_eq(operand->types, "");
        if (field->kind == XCVM_FIELD_CHOICE) {
            const char *at = operand->choices;
            for (size_t i = 0; field->choices[i] != NULL; i++) {
                size_t length = strlen(field->choices[i]);
                ck_assert(strncmp(at, field->choices[i], length) == 0);
                at += length;
                ck_assert_int_eq(*at, field->choices[i + 1] != NULL ? '|' : '\0');
                at += *at == '|';
            }
        }
        if (field->kind == XCVM_FIELD_DTYPE)
            ck_assert_int_eq(xcvm_dtype_from_name(operand->choices), field->int_default);
        return;
    }
    ck_assert_str_eq(operand->role, field->role == XCVM_ROLE_OUT ? "output" : "input");
    ck_assert_str_eq(operand->types, xcvm_dtypes_describe(xcvm_field_types(row, field), types, sizeof types));
    ck_assert_int_eq(operand->optional, field->kind == XCVM_FIELD_OPTIONAL);
}

START_TEST(table)
{
    size_t rows = 0;
    for (int64_t number = 0; number < XCVM_OPCODE_LIMIT; number++)
        rows += xcvm_row_of(number) != NULL;
    ck_assert_uint_eq(xcvm_op_count(), rows);
    for (size_t i = 0; i < xcvm_op_count(); i++) {
        const xcvm_op_info *op = xcvm_op(i);
        const xcvm_row *row = xcvm_row_named(op->name, strlen(op->name));
        ck_assert_ptr_nonnull(row);
        ck_assert_int_eq(op->number, row->opcode);
        ck_assert_str_eq(op->sentence, row->sentence);
        ck_assert_str_eq(op->shape_rule, row->shape_name);
        ck_assert_int_eq(op->has_gradient, row->has_gradient);
        size_t operand = 0;
        for (size_t f = 0; f < row->field_count; f++)
            if (row->fields[f].role != XCVM_ROLE_TYPE)
                check_operand(row, &row->fields[f], &op->operands[operand++]);
        ck_assert_uint_eq(operand, op->operand_count);
    }
    ck_assert_ptr_null(xcvm_op(xcvm_op_count()));
}
END_TEST

START_TEST(texts)
{
    const xcvm_op_info *clip = NULL, *pad = NULL;
    for (size_t i = 0; i < xcvm_op_count(); i++) {
        if (strcmp(xcvm_op(i)->name, "Clip") == 0)
            clip = xcvm_op(i);
        if (strcmp(xcvm_op(i)->name, "Pad") == 0)
            pad = xcvm_op(i);
    }
    ck_assert_ptr_nonnull(clip);
    ck_assert_ptr_nonnull(pad);
    ck_assert_uint_eq(clip->operand_count, 4);
    ck_assert_str_eq(clip->operands[0].role, "output");
    ck_assert_str_eq(clip->operands[2].kind, "tensor");
    ck_assert(clip->operands[2].optional);
    ck_assert_str_eq(pad->operands[5].choices, "constant|reflect|edge|wrap");
}
END_TEST

Suite *suite_vm_reflection(void);
Suite *suite_vm_reflection(void) { return SUITE_OF("vm_reflection", table, texts); }
