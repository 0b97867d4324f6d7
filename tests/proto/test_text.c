/* Tests of text assembly: every program and value is preserved exactly, and errors name their position. */
#include "proto/attributes.h"
#include "ops/table/table.h"
#include "proto/image.h"
#include "proto/literals.h"
#include "tests/support.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static xcvm_error error;

static test_bytes assembled(const char *text, size_t length)
{
    test_bytes file = {0};
    xcvm_status status = xcvm_assemble(text, length, "", (xcvm_sink){test_bytes_sink, &file}, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    return file;
}

static test_bytes dumped(const test_bytes *file, const xcvm_disassemble_options *options)
{
    test_bytes text = {0};
    xcvm_status status = xcvm_disassemble(file->at, file->length, options, (xcvm_sink){test_bytes_sink, &text}, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    return text;
}

/* The dump of a file assembles to the same file. */
static void check_round_trip(const test_bytes *file, const xcvm_disassemble_options *options)
{
    test_bytes text = dumped(file, options);
    test_bytes again = assembled(text.at, text.length);
    ck_assert_msg(test_bytes_equal(file, &again), "not the same file:\n%.*s", (int)text.length, text.at);
    test_bytes_free(&text);
    test_bytes_free(&again);
}

static test_bytes everything(void)
{
    test_bytes text = test_file_read(XCVM_TEST_DATA "/proto/everything.xcvm");
    ck_assert_ptr_nonnull(text.at);
    test_bytes file = assembled(text.at, text.length);
    test_bytes_free(&text);
    return file;
}

START_TEST(test_everything)
{
    test_bytes file = everything();
    for (int explain = 0; explain < 2; explain++)
        for (size_t limit = 0; limit < 30; limit += 10)
            check_round_trip(&file, &(xcvm_disassemble_options){.size = sizeof(xcvm_disassemble_options),
                                                                .literal_limit = limit,
                                                                .explain = explain != 0});
    check_round_trip(&file, NULL);
    test_bytes_free(&file);
}
END_TEST

START_TEST(test_references)
{
    char path[] = "/tmp/xcvm_test_XXXXXX";
    test_bytes file = everything();
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, file.at, file.length), (ssize_t)file.length);
    close(fd);
    xcvm_disassemble_options options = {.size = sizeof options, .literal_limit = 1, .program_path = path};
    test_bytes text = dumped(&file, &options);
    ck_assert_ptr_nonnull(memmem(text.at, text.length, "\":4096", 6));
    test_bytes_free(&text);
    check_round_trip(&file, &options);
    unlink(path);
    test_bytes_free(&file);
}
END_TEST

/* ---- Every instruction ---- */

static void fill_attribute(const xcvm_field *f, void *args)
{
    static const int64_t ints[] = {1, 1};
    static const double floats[] = {0.1, -2e300};
    static const xcvm_text texts[] = {{"one", 3}, {"\0\n", 2}};
    switch (f->kind) {
    case XCVM_FIELD_INT:
        *XCVM_FIELD(int64_t, f, args) = f->max;
        break;
    case XCVM_FIELD_INTS:
        *XCVM_FIELD(xcvm_ints, f, args) = (xcvm_ints){ints, 2};
        break;
    case XCVM_FIELD_FLOAT:
        *XCVM_FIELD(double, f, args) = 1.0 / 3;
        break;
    case XCVM_FIELD_FLOATS:
        *XCVM_FIELD(xcvm_floats, f, args) = (xcvm_floats){floats, 2};
        break;
    case XCVM_FIELD_TEXT:
        *XCVM_FIELD(xcvm_text, f, args) = texts[1];
        break;
    case XCVM_FIELD_TEXTS:
        *XCVM_FIELD(xcvm_texts, f, args) = (xcvm_texts){texts, 2};
        break;
    case XCVM_FIELD_DTYPE:
        *XCVM_FIELD(xcvm_dtype, f, args) = XCVM_F8E4M3FNUZ;
        break;
    case XCVM_FIELD_CHOICE:
        *XCVM_FIELD(int, f, args) = f->choices[1] != NULL ? 1 : 0;
        break;
    default:
        *XCVM_FIELD(int64_t, f, args) = 0;
        break;
    }
}

/* An instruction of the definition with all fields, or with required fields only. */
static test_bytes program_of(const xcvm_schema *schema, bool full)
{
    static int32_t in[64], out[64];
    xcvm_arena arena = {0};
    xcvm_instruction instruction = {.schema = schema, .in = in, .out = out, .debug = {.node = ""}};
    instruction.args = xcvm_args_create(&arena, schema);
    ck_assert_ptr_nonnull(instruction.args);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        size_t count = xcvm_field_is_list(f) ? full * 3u : 1;
        bool absent = !full && f->kind == XCVM_FIELD_OPTIONAL;
        if (xcvm_field_is_operand(f) && xcvm_field_is_list(f))
            xcvm_args_set_count(f, instruction.args, count);
        for (size_t j = 0; xcvm_field_is_input(f) && j < count; j++, instruction.in_count++)
            in[instruction.in_count] = absent ? 0 : instruction.in_count % 3 == 2 ? -1 : 100 + (int32_t)j;
        for (size_t j = 0; f->role == XCVM_ROLE_OUT && j < count; j++, instruction.out_count++)
            out[instruction.out_count] = absent ? 0 : (int32_t)instruction.out_count + 1;
        if (xcvm_field_is_attribute(f) && full)
            fill_attribute(f, instruction.args);
    }
    float element = 1;
    xcvm_constant constant = {.name = "c"};
    xcvm_value_set_tensor(&constant.value, XCVM_F32, 0, NULL);
    constant.value.data = &element;
    xcvm_image image = {.format = XCVM_FORMAT,
                        .producer = "",
                        .instructions = &instruction,
                        .instruction_count = 1,
                        .constants = &constant,
                        .constant_count = 1};
    test_bytes file = {0};
    ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &file}, &error), XCVM_OK);
    xcvm_arena_release(&arena);
    return file;
}

START_TEST(test_instruction)
{
    const xcvm_schema *schema = xcvm_schema_of(_i);
    for (int full = 0; schema != NULL && full < 2; full++) {
        xcvm_arena arena = {0};
        xcvm_image image;
        test_bytes file = program_of(schema, full != 0), again = {0};
        xcvm_status status = xcvm_image_decode(file.at, file.length, NULL, &arena, &image, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
        ck_assert(test_bytes_equal(&file, &again));
        void *detached = xcvm_args_detach(&arena, schema, image.instructions[0].args);
        ck_assert_ptr_nonnull(detached);
        image.instructions[0].args = detached;
        again.length = 0;
        ck_assert_int_eq(xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &again}, &error), XCVM_OK);
        ck_assert(test_bytes_equal(&file, &again));
        check_round_trip(&file, &(xcvm_disassemble_options){.size = sizeof(xcvm_disassemble_options), .explain = true});
        test_bytes_free(&file);
        test_bytes_free(&again);
        xcvm_arena_release(&arena);
    }
}
END_TEST

/* ---- Literals ---- */

static const xcvm_dtype dtypes[] = {
#define DTYPE(name, number, text, bits) XCVM_##name,
    XCVM_DTYPE_LIST(DTYPE)
#undef DTYPE
};

static uint64_t next_random(uint64_t *state)
{
    const uint64_t drawn = test_random_wide(state);
    return drawn >> 33 ^ drawn << 31;
}

/* Writes a tensor and reads it back. */
static void check_literal(const xcvm_value *tensor)
{
    xcvm_arena arena = {0};
    xcvm_writer w;
    xcvm_reader r;
    xcvm_value back;
    test_bytes text = {0};
    xcvm_writer_start(&w, (xcvm_sink){test_bytes_sink, &text});
    xcvm_literal_write(&w, tensor);
    ck_assert_int_eq(xcvm_writer_finish(&w, &error), XCVM_OK);
    xcvm_reader_start(&r, text.at, text.length, &arena, &error);
    xcvm_status status = xcvm_literal_read(&r, &back);
    ck_assert_msg(status == XCVM_OK, "%s in %.*s", error.message, (int)text.length, text.at);
    ck_assert(xcvm_reader_at_text_end(&r));
    ck_assert(back.dtype == tensor->dtype && xcvm_same_shape(&back, tensor) && back.bytes == tensor->bytes);
    ck_assert_msg(memcmp(back.data, tensor->data, back.bytes) == 0, "%.*s", (int)text.length, text.at);
    test_bytes_free(&text);
    xcvm_arena_release(&arena);
}

/* All bit patterns of up to 16 bits, and as many random ones of the wider types. */
START_TEST(test_literal)
{
    xcvm_dtype dtype = dtypes[_i];
    static uint64_t words[65536];
    uint64_t state = 1;
    if (dtype == XCVM_STRING)
        return;
    int bits = xcvm_dtype_bits(dtype);
    size_t patterns = bits < 16 ? (size_t)1 << bits : 65536 / ((size_t)bits / 16);
    for (size_t i = 0; i < 65536; i++)
        words[i] = next_random(&state);
    unsigned char *bytes = (unsigned char *)words;
    for (size_t i = 0; i < patterns && bits <= 16; i++) {
        if (bits == 16)
            ((uint16_t *)(void *)words)[i] = (uint16_t)i;
        else if (bits == 8)
            bytes[i] = dtype == XCVM_BOOL ? i & 1 : (unsigned char)i;
    }
    if (bits < 8)
        patterns = 512; /* of random bytes */
    int64_t dims[] = {(int64_t)patterns};
    xcvm_value tensor = {0};
    xcvm_value_set_tensor(&tensor, dtype, 1, dims);
    tensor.data = words;
    check_literal(&tensor);
    dims[0] = 0;
    xcvm_value_set_tensor(&tensor, dtype, 1, dims);
    check_literal(&tensor);
    xcvm_value_set_tensor(&tensor, dtype, 0, NULL);
    if (bits < 8)
        bytes[0] = 1;
    check_literal(&tensor);
}
END_TEST

START_TEST(test_special_numbers)
{
    static const struct {
        xcvm_dtype dtype;
        const char *text;
        uint64_t bits;
    } numbers[] = {
        {XCVM_F32, "1", 0x3f800000},
        {XCVM_F32, "-0", 0x80000000},
        {XCVM_F32, "inf", 0x7f800000},
        {XCVM_F32, "nan", 0x7fc00000},
        {XCVM_F32, "0xffc00001", 0xffc00001},
        {XCVM_F32, "1e-45", 1},
        {XCVM_F32, "3.4028235e+38", 0x7f7fffff},
        {XCVM_F16, "65504", 0x7bff},
        {XCVM_F16, "6e-08", 1},
        {XCVM_BF16, "1", 0x3f80},
        {XCVM_F8E4M3FN, "448", 0x7e},
        {XCVM_F8E4M3FN, "nan", 0x7f},
        {XCVM_F8E4M3FN, "0xff", 0xff},
        {XCVM_F8E4M3FNUZ, "240", 0x7f},
        {XCVM_F8E4M3FNUZ, "nan", 0x80},
        {XCVM_F8E5M2, "57344", 0x7b},
        {XCVM_F8E5M2, "-inf", 0xfc},
        {XCVM_F8E5M2FNUZ, "57344", 0x7f},
        {XCVM_F4E2M1, "6", 7},
        {XCVM_F4E2M1, "0.5", 1},
        {XCVM_F4E2M1, "-0", 8},
        {XCVM_I8, "-128", 0x80},
        {XCVM_U4, "15", 15},
        {XCVM_I2, "-2", 2},
        {XCVM_U64, "18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[100];
        xcvm_arena arena = {0};
        xcvm_reader r;
        xcvm_value tensor;
        uint64_t bits = 0;
        int length = snprintf(text, sizeof text, "%s[] %s", xcvm_dtype_name(numbers[i].dtype), numbers[i].text);
        xcvm_reader_start(&r, text, (size_t)length, &arena, &error);
        xcvm_status status = xcvm_literal_read(&r, &tensor);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        memcpy(&bits, tensor.data, tensor.bytes);
        ck_assert_msg(bits == numbers[i].bits, "%s is 0x%llx", text, (unsigned long long)bits);
        test_bytes back = {0};
        xcvm_writer w;
        xcvm_writer_start(&w, (xcvm_sink){test_bytes_sink, &back});
        xcvm_literal_write(&w, &tensor);
        ck_assert_int_eq(xcvm_writer_finish(&w, &error), XCVM_OK);
        ck_assert_msg(back.length == (size_t)length && memcmp(back.at, text, back.length) == 0, "%s, not %.*s", text,
                      (int)back.length, back.at);
        test_bytes_free(&back);
        xcvm_arena_release(&arena);
    }
}
END_TEST

START_TEST(test_locale)
{
    ck_assert(test_comma_locale());
    test_bytes file = everything();
    check_round_trip(&file, NULL);
    test_bytes text = dumped(&file, NULL);
    ck_assert_ptr_nonnull(memmem(text.at, text.length, "alpha=0.1)", 10));
    test_bytes_free(&text);
    test_bytes_free(&file);
    setlocale(LC_ALL, "C");
}
END_TEST

/* ---- Form ---- */

static void check_dump(const char *source, const char *part, bool explain)
{
    test_bytes file = assembled(source, strlen(source));
    test_bytes text =
        dumped(&file, &(xcvm_disassemble_options){.size = sizeof(xcvm_disassemble_options), .explain = explain});
    ck_assert_msg(memmem(text.at, text.length, part, strlen(part)) != NULL, "`%s` is not in\n%.*s", part,
                  (int)text.length, text.at);
    test_bytes_free(&file);
    test_bytes_free(&text);
}

START_TEST(test_form)
{
    check_dump("xcvm 1\n$1 = Neg(f32[2] 1 2)", "\n$1 = Neg(f32[2] 1 2)\n", false);
    check_dump("xcvm 1\nconstant a f32[] = 1\n$1 = Add(@a, f32[] 2)", "$1 = Add(@a, f32[] 2)\n", false);
    check_dump("xcvm 1\n$1 = Add(f32[] 1, f32[] 2)\nconstant a f32[] = 1\n", "$1 = Add(@#0, @#1)\n", false);
    check_dump("xcvm 1\nconstant a f32[] = 1\nconstant a f32[] = 2\n$1 = Add(@#0, @#1)", "$1 = Add(@#0, @#1)\n", false);
    check_dump("xcvm 1\nconstant \"a b\" f32[] = 1\n$1 = Neg(@\"a b\")", "$1 = Neg(@\"a b\")\n", false);
    check_dump("xcvm 1\nJmp(to=far)\nfar:", "Jmp(to=L1)\nL1:\n", false);
    check_dump("xcvm 1\n$3 = Gemm($1, $2, alpha=0.5)",
               "# 0: $3 = activation(0.5 * $1 * $2 + 1 * _) with $1 and $2 optionally trans", true);
    check_dump("xcvm 1\nOut($3, name=\"y\")", "  # 0: the output called \"y\" = $3\n", true);
    check_dump("xcvm 1\n$2 = Elu($1, alpha=0.1f)", "alpha=0.1f)", false);
    check_dump("xcvm 1\n$2 = Elu($1, alpha=0.1)", "alpha=0.1)", false);
    check_dump("xcvm 1\r\n$2 = Neg($1) # what\r\n", "$2 = Neg($1)\n", false);
}
END_TEST

START_TEST(test_descriptions)
{
    const xcvm_schema *schema = xcvm_schema_of(XCVM_OP_LeakyRelu);
    xcvm_LeakyRelu_args leaky = {.alpha = 0.25};
    char text[200], tiny[6];
    ck_assert_str_eq(xcvm_attributes_describe(schema, &leaky, text, sizeof text), "alpha=0.25");
    ck_assert_str_eq(xcvm_attributes_describe(schema, &leaky, tiny, sizeof tiny), "alpha");
    xcvm_Cast_args cast = {.to = XCVM_F16, .saturate = 1};
    ck_assert_str_eq(xcvm_attributes_describe(xcvm_schema_of(XCVM_OP_Cast), &cast, text, sizeof text),
                     "to=f16 saturate=1 round_mode=up");
    ck_assert_str_eq(xcvm_attributes_describe(xcvm_schema_of(XCVM_OP_Neg), &cast, text, sizeof text), "");
    xcvm_type type = {.kind = XCVM_KIND_TENSOR,
                      .dtype = XCVM_F32,
                      .rank = 3,
                      .dims = {-1, 3, -1},
                      .dim_names = {"N", NULL, "max len"}};
    ck_assert_str_eq(xcvm_type_describe(&type, text, sizeof text), "f32[Nx3x\"max len\"]");
    type.rank = -1;
    ck_assert_str_eq(xcvm_type_describe(&type, text, sizeof text), "f32[...]");
    type.kind = XCVM_KIND_SEQUENCE;
    ck_assert_str_eq(xcvm_type_describe(&type, text, sizeof text), "seq(f32)");
    type.kind = XCVM_KIND_NULL;
    ck_assert_str_eq(xcvm_type_describe(&type, text, sizeof text), "?");
}
END_TEST

/* ---- Refusals ---- */

/* Values of tests/case_values.py. */
START_TEST(test_random_elements)
{
    static const struct {
        const char *type, *random, *listed;
    } literals[] = {
        {"f32[6]", "random[7]", "-0.5 -1.9375 1.5625 0.3125 -0.25 -1.0625"},
        {"f16[3]", "random[0]", "1.5 -0.3125 -1.9375"},
        {"i32[6]", "random[7]", "-2 -8 6 1 -1 -5"},
        {"u8[4]", "random[18446744073709551615 0 256]", "228 233 56 109"},
        {"i64[4]", "random[1 -1000 1000]", "133 491 942 -112"},
        {"bool[8]", "random[3]", "0 1 1 0 0 1 0 1"},
        {"f64[2x2]", "random[5 0 1]", "0.375 0.75 0.1875 0.0625"},
        {"c64[2]", "random[9]", "0.6875 1 -1 1.125"},
        {"u4[5]", "random[2]", "9 11 9 12 4"},
        {"i2[5]", "random[2]", "0 0 0 1 -1"},
        {"f32[0]", "random[1]", ""},
    };
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        char random[200], listed[200];
        snprintf(random, sizeof random, "xcvm 1\nconstant c %s = %s\n", literals[i].type, literals[i].random);
        snprintf(listed, sizeof listed, "xcvm 1\nconstant c %s = %s\n", literals[i].type, literals[i].listed);
        test_bytes drawn = assembled(random, strlen(random)), expected = assembled(listed, strlen(listed));
        ck_assert_uint_eq(drawn.length, expected.length);
        ck_assert_msg(memcmp(drawn.at, expected.at, drawn.length) == 0, "%s is not %s", random, literals[i].listed);
        test_bytes_free(&drawn);
        test_bytes_free(&expected);
    }
}
END_TEST

/* A backslash joins lines within a string. */
START_TEST(test_joined_string)
{
    static const char lines[] = "xcvm 1\nproducer \"one \\\n two\"\n", line[] = "xcvm 1\nproducer \"one  two\"\n";
    test_bytes joined = assembled(lines, strlen(lines)), plain = assembled(line, strlen(line));
    ck_assert_uint_eq(joined.length, plain.length);
    ck_assert(memcmp(joined.at, plain.at, plain.length) == 0);
    test_bytes_free(&joined);
    test_bytes_free(&plain);
}
END_TEST

static const struct {
    const char *text, *message;
} refusals[] = {
    {"", "line 1: the text must begin with `xcvm 1`"},
    {"xcvm", "line 1: a number is expected, not the end of the text"},
    {"xcvm 0", "program formats begin with 1"},
    {"xcvm 1 2", "line 1: `2` is more than belongs on this line"},
    {"xcvm 2", "program format 2 is newer than this library's 1"},
    {"xcvm 1\nfoo bar", "line 2: `foo` begins no statement"},
    {"xcvm 1\n\n\n$1 = conv($2)", "line 4: there is no instruction `conv`; did you mean Conv?"},
    {"xcvm 1\n$1 = Zzzzzzzzz($2)", "there is no instruction `Zzzzzzzzz`"},
    {"xcvm 1\n$1 = Conv($2, $3, stride=[1])", "line 2: Conv has no attribute `stride`; it has strides, pads, "},
    {"xcvm 1\n$1 = Neg($2, alpha=1)", "Neg has no attribute `alpha`; it has none"},
    {"xcvm 1\n$1 = Conv($2)", "line 2: Conv needs w"},
    {"xcvm 1\n$1 = Conv($2, _)", "Conv needs w"},
    {"xcvm 1\n$1 = Concat(axis=1)", "Concat needs xs"},
    {"xcvm 1\n$1 = Concat([$2, _])", "Concat needs xs"},
    {"xcvm 1\n$1 = Concat($2)", "xs of Concat: a list in brackets is expected, not `$`"},
    {"xcvm 1\n$1 = Neg([$2])", "x of Neg: a register ($1)"},
    {"xcvm 1\n$1 = Neg($2, $3)", "Neg has no more operands"},
    {"xcvm 1\n$1 = Neg($2", "`)` is expected"},
    {"xcvm 1\n$1 = Neg($0)", "registers begin with $1"},
    {"xcvm 1\n$1 = Neg($99999999999)", "a number up to 2147483647 is expected"},
    {"xcvm 1\n$1, $2 = Neg($3)", "line 2: Neg has 1 results, not 2"},
    {"xcvm 1\n_ = Neg($3)", "Neg needs a register for its result y"},
    {"xcvm 1\nNeg($3)", "Neg needs a register for its result y"},
    {"xcvm 1\n$1 = Softmax($2, axis=9)", "line 2: axis is 9, not between -8 and 7"},
    {"xcvm 1\n$1 = Softmax($2, axis=1, axis=1)", "axis is given twice"},
    {"xcvm 1\n$1 = Softmax($2, axis=1.5)", "an integer is expected, not `1.5`"},
    {"xcvm 1\n$1 = Softmax($2, axis=99999999999999999999)", "an integer is expected"},
    {"xcvm 1\n$1 = Transpose($2, perm=[0 8])", "perm is 8, not between 0 and 7"},
    {"xcvm 1\n$1 = Transpose($2, perm=0)", "`[` is expected"},
    {"xcvm 1\n$1 = Gelu($2, approximate=some)", "approximate is one of none, tanh, not `some`"},
    {"xcvm 1\n$1 = Cast($2, to=f33)", "to is an element type, as f32, or none; not `f33`"},
    {"xcvm 1\n$1 = Elu($2, alpha=one)", "`one` is not a number"},
    {"xcvm 1\n$1 = Elu($2, alpha=1e999)", "`1e999` is beyond the greatest number"},
    {"xcvm 1\n$1 = In(name=x)", "a string in quotes is expected, not `x`"},
    {"xcvm 1\n$1 = In(name=\"x)", "a string is not closed"},
    {"xcvm 1\n$1 = In(name=\"\\q\")", "unknown escape"},
    {"xcvm 1\n$1 = In(name=\"\\x1\")", "unknown escape"},
    {"xcvm 1\nJmp()", "Jmp needs to=, where to jump"},
    {"xcvm 1\n\nJmp(to=far)\n\n", "line 3: there is no label `far`"},
    {"xcvm 1\na:\na:\n", "label `a` is defined twice"},
    {"xcvm 1\n$1 = Neg(@w)", "line 2: there is no constant `w`"},
    {"xcvm 1\n$1 = Neg(@#3)", "there is no constant number 3; there are 0"},
    {"xcvm 1\nconstant a f32[] = 1\nconstant a f32[] = 2\n$1 = Neg(@a)",
     "line 4: constant `a` is there more than once"},
    {"xcvm 1\nconstant a f32[2] = 1", "2 elements are expected, not 1 and then the end of the text"},
    {"xcvm 1\nconstant a f32[2] = 1 2 3", "`3` is more than belongs on this line"},
    {"xcvm 1\nconstant a f32[99999999999] = 1", "more than the rest of the text has"},
    {"xcvm 1\nconstant a f32[9223372036854775807x9] = 1", "too large"},
    {"xcvm 1\nconstant a f32[?] = 1", "f32[?] does not"},
    {"xcvm 1\nconstant a seq(f32) = 1", "seq(f32) does not"},
    {"xcvm 1\nconstant a u8[1] = 256", "a number up to 255 is expected, not `256`"},
    {"xcvm 1\nconstant a u8[1] = -1", "a number is expected, not `-`"},
    {"xcvm 1\nconstant a i4[1] = 8", "8 is not between -8 and 7"},
    {"xcvm 1\nconstant a bool[1] = 2", "true or false is expected, not `2`"},
    {"xcvm 1\nconstant a f16[1] = 70000", "f16: `70000` is beyond the greatest number of the type"},
    {"xcvm 1\nconstant a f16[1] = 0x12345", "f16: `0x12345` has more bits than the type"},
    {"xcvm 1\nconstant a f8e4m3fn[1] = inf", "is beyond the greatest"},
    {"xcvm 1\nconstant a f4e2m1[1] = nan", "has no NaN"},
    {"xcvm 1\nconstant a f32[1] = 0x1p3", "has more bits than the type, or other characters"},
    {"xcvm 1\nconstant a f32[1] = 1,5", "`,` is more than belongs"},
    {"xcvm 1\nconstant a c64[1] = (1 2)", "`,` is expected, not `2`"},
    {"xcvm 1\nconstant a str[1] = a", "a string in quotes is expected"},
    {"xcvm 1\nconstant a f32[1x2x3x4x5x6x7x8x9] = 1", "a tensor has up to 8 dimensions"},
    {"xcvm 1\nconstant a f99[1] = 1", "a type is expected, as in f32[2x3], not `f99`"},
    {"xcvm 1\nconstant a f32[-1] = 1", "a dimension (a number, a name or ?) is expected, not `-`"},
    {"xcvm 1\nconstant a f32[2y] = 1", "`2y` is not a dimension"},
    {"xcvm 1\nconstant a f32[1] = @\"/etc/passwd\":0", "this text may not refer to files"},
    {"xcvm 1\nproducer \"a\\\n\\q\"", "line 3: a string has an unknown escape"},
    {"xcvm 1\nconstant a f32[1] = random", "`[` is expected"},
    {"xcvm 1\nconstant a f32[1] = random[x]", "is expected, not `x`"},
    {"xcvm 1\nconstant a f32[1] = random[1 2]", "is expected"},
    {"xcvm 1\nconstant a f32[1] = random[1 2 2]", "HIGH of random[SEED LOW HIGH] must be greater than LOW"},
    {"xcvm 1\nconstant a str[1] = random[1]", "there are no random strings"},
    {"xcvm 1\nconstant a u8[1] = random[1 0 257]", "u8 does not have all numbers from 0 to below 257"},
    {"xcvm 1\nconstant a u32[1] = random[1 -1 1]", "u32 does not have all numbers from -1 to below 1"},
    {"xcvm 1\nconstant a i8[1] = random[1 -129 1]", "i8 does not have all numbers"},
    {"xcvm 1\nconstant a f8e8m0[1] = random[1]", "f8e8m0 does not have all numbers from -2"},
    {"xcvm 1\nconstant a f16[100] = random[1 0 1000000]", "is too great for f16"},
    {"xcvm 1\nconstant a f32[4194305] = random[1]", "random literals of a text have up to 4194304 elements in total"},
    {"xcvm 1\nconstant a u8[4000000] = random[1]\nconstant b u8[4000000] = random[1]", "line 3: random literals"},
    {"xcvm 1\ninput \"a\\x00\" f32", "a name has a NUL in it"},
    {"xcvm 1\nproducer \"a\\x00\"", "may not have a NUL"},
    {"xcvm 1\nlibrary \"a\" sha256:00 abi=1 isa=\"\"", "a hash has 64 digits, not 2"},
    {"xcvm 1\n$1 = Neg($2) slot=1", "`+` is expected"},
    {"xcvm 1\n$1 = Neg($2) node=\"a\" node=\"b\"", "node is given twice"},
    {"xcvm 1\n$1 = Neg($2) speed=1", "slot=, node=, type=, name=, flops= or the end of the line"},
    {"xcvm 1\n$1 = Neg($2) \x01", "a byte 0x01"},
};

START_TEST(test_refusal)
{
    test_bytes file = {0};
    xcvm_status status =
        xcvm_assemble(refusals[_i].text, strlen(refusals[_i].text), NULL, (xcvm_sink){test_bytes_sink, &file}, &error);
    ck_assert_msg(status != XCVM_OK, "taken: %s", refusals[_i].text);
    ck_assert_uint_eq(file.length, 0);
    ck_assert_msg(strstr(error.message, refusals[_i].message) != NULL, "%s\nis refused with: %s\nnot: %s",
                  refusals[_i].text, error.message, refusals[_i].message);
    ck_assert_int_eq(status, strstr(refusals[_i].text, "xcvm 2") != NULL ? XCVM_UNSUPPORTED : XCVM_INVALID_PROGRAM);
}
END_TEST

/* Every prefix of the text, and every text with a replaced character, is accepted or refused cleanly. */
START_TEST(test_broken_text)
{
    static const char replacements[] = "\n\"@$_()[]x1-\0#\xff";
    test_bytes text = test_file_read(XCVM_TEST_DATA "/proto/everything.xcvm");
    ck_assert_ptr_nonnull(text.at);
    for (size_t i = 0; i < text.length; i++) {
        test_bytes file = {0};
        char *copy = malloc(i + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, text.at, i);
        (void)!xcvm_assemble(copy, i, NULL, (xcvm_sink){test_bytes_sink, &file}, &error);
        free(copy);
        file.length = 0;
        char kept = text.at[i];
        text.at[i] = replacements[i % (sizeof replacements - 1)];
        (void)!xcvm_assemble(text.at, text.length, NULL, (xcvm_sink){test_bytes_sink, &file}, &error);
        text.at[i] = kept;
        test_bytes_free(&file);
    }
    test_bytes_free(&text);
}
END_TEST

START_TEST(test_no_memory)
{
    test_bytes text = test_file_read(XCVM_TEST_DATA "/proto/everything.xcvm");
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcvm_arena arena = {.allocator = &a.allocator};
        xcvm_image image;
        status = xcvm_image_assemble(text.at, text.length, NULL, &a.allocator, &arena, &image, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%s", error.message);
        xcvm_arena_release(&arena);
        ck_assert_uint_eq(a.live, 0);
    }
    test_bytes_free(&text);
}
END_TEST

Suite *suite_proto_text(void);
Suite *suite_proto_text(void)
{
    Suite *suite = suite_create("proto_text");
    TCase *tests = tcase_create("text");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_everything);
    tcase_add_test(tests, test_references);
    tcase_add_loop_test(tests, test_instruction, 1, XCVM_OPCODE_LIMIT);
    tcase_add_loop_test(tests, test_literal, 0, (int)(sizeof dtypes / sizeof *dtypes));
    tcase_add_test(tests, test_special_numbers);
    tcase_add_test(tests, test_locale);
    tcase_add_test(tests, test_form);
    tcase_add_test(tests, test_descriptions);
    tcase_add_test(tests, test_random_elements);
    tcase_add_test(tests, test_joined_string);
    tcase_add_loop_test(tests, test_refusal, 0, (int)(sizeof refusals / sizeof *refusals));
    tcase_add_test(tests, test_broken_text);
    tcase_add_test(tests, test_no_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
