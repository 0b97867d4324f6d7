/* Tests of the verifier: programs that it must refuse. */
#include "tests/vm/support.h"
#include "ops/table/table.h"

START_TEST(registers)
{
    check_refused("$2 = Relu($1)\n", XCVM_INVALID_PROGRAM, 0, "$1, which is not set");
    check_refused("$1 = Relu(f32[1] 1)\n$1 = Relu(f32[1] 1)\n", XCVM_INVALID_PROGRAM, 1, "$1, which is still set");
    check_refused("$1 = Relu($1)\n", XCVM_INVALID_PROGRAM, 0, "$1, which is not set");
    check_refused("$1 = Relu(f32[1] 1)\n$2 = Relu($1)\nFree($1)\nFree($1)\n", XCVM_INVALID_PROGRAM, 3, "$1");
    check_refused("$1 = Relu(f32[1] 1)\nFree($1)\n$2 = Relu($1)\n", XCVM_INVALID_PROGRAM, 2, "$1");
    check_refused("$1, $1 = Split(f32[2] 1 2, _)\n", XCVM_INVALID_PROGRAM, 0, "$1, which is still set");
    check_refused("$1000 = Relu(f32[1] 1)\n", XCVM_INVALID_PROGRAM, 0, "too high");
    check_refused("Free(f32[1] 1)\n", XCVM_INVALID_PROGRAM, 0, "constant");
    xcvm_program_destroy(load("$1 = Relu(f32[1] 1)\nFree($1)\n$1 = Relu(f32[1] 1)\n"));
    xcvm_program_destroy(load(""));
}
END_TEST

START_TEST(parameters)
{
    check_refused("$1 = In(name=\"x\")\n", XCVM_INVALID_PROGRAM, 0, "no input \"x\"");
    check_refused("Out(f32[1] 1, name=\"y\")\n", XCVM_INVALID_PROGRAM, 0, "no output \"y\"");
    check_refused("output y f32[1]\n", XCVM_INVALID_PROGRAM, -1, "never gives its output \"y\"");
    check_refused("output y f32[1]\nOut(f32[1] 1, name=\"y\")\nOut(f32[1] 1, name=\"y\")\n", XCVM_INVALID_PROGRAM, 1,
                  "\"y\" is given a second time");
    check_refused("input x f32[1]\n$1 = In(name=\"x\")\n$2 = In(name=\"x\")\n", XCVM_INVALID_PROGRAM, 1,
                  "\"x\" is taken a second time");
    check_refused("input x f32[1]\ninput x f32[2]\n", XCVM_INVALID_PROGRAM, -1, "two inputs are called \"x\"");
    check_refused("output y f32[1]\noutput y f32[1]\n", XCVM_INVALID_PROGRAM, -1, "two outputs are called \"y\"");
    check_refused("input x f32[1]\nloop:\n$1 = In(name=\"x\")\nFree($1)\nJmp(to=loop)\n", XCVM_INVALID_PROGRAM, 0,
                  "\"x\" is taken a second time");
    check_refused("output y i64[1]\nOut(f32[1] 1, name=\"y\")\n", XCVM_TYPE_MISMATCH, 0, "declared as i64 tensor");
}
END_TEST

START_TEST(types)
{
    check_refused("$1 = Add(f32[1] 1, i32[1] 1)\n", XCVM_TYPE_MISMATCH, 0, "a is f32; both must be the same");
    check_refused("$1 = Exp(i32[1] 1)\n", XCVM_TYPE_MISMATCH, 0, "must be one of: f32 f16 f64 bf16");
    check_refused("input x f64[1]\n$1 = In(name=\"x\")\n$2 = Mul($1, f32[1] 1)\n", XCVM_TYPE_MISMATCH, 1, "a is f64");
    check_refused("$1 = Cast(f32[1] 1, to=i32)\n$2 = Exp($1)\n", XCVM_TYPE_MISMATCH, 1, "i32");
    check_refused("$1 = SequenceConstruct([f32[1] 1])\n$2 = Relu($1)\n", XCVM_TYPE_MISMATCH, 1,
                  "x ($1) is a sequence, but must be a tensor");
    check_refused("$1 = SequenceLength(f32[1] 1)\n", XCVM_TYPE_MISMATCH, 0, "must be a sequence");
    check_refused("JmpTrue(f32[1] 1, to=0)\n", XCVM_TYPE_MISMATCH, 0, "must be one of: bool");
    check_refused("$1 = Identity(f32[1] 1)\n$2 = Not($1)\n", XCVM_TYPE_MISMATCH, 1, "f32");
}
END_TEST

START_TEST(paths)
{
    check_refused("JmpTrue(bool[] true, to=end)\n$1 = Relu(f32[1] 1)\nend:\n$2 = Relu(f32[1] 1)\n",
                  XCVM_INVALID_PROGRAM, 2, "$1 is set on one path");
    check_refused("JmpTrue(bool[] true, to=end)\n$1 = Relu(f32[1] 1)\nend:\n", XCVM_INVALID_PROGRAM, -1,
                  "$1 is set on one path to the end");
    check_refused("output y f32[1]\nJmpTrue(bool[] true, to=end)\nOut(f32[1] 1, name=\"y\")\nend:\n",
                  XCVM_INVALID_PROGRAM, -1, "\"y\" is given on one path");
    check_refused("loop:\n$1 = Relu(f32[1] 1)\nJmp(to=loop)\n", XCVM_INVALID_PROGRAM, 0, "$1 is set on one path");
    check_refused("$1 = Relu(f32[1] 1)\nloop:\nFree($1)\nJmp(to=loop)\n", XCVM_INVALID_PROGRAM, 1,
                  "$1 is set on one path");
    xcvm_program_destroy(load("output y f32[1]\n"
                              "JmpTrue(bool[] true, to=other)\n"
                              "$1 = Relu(f32[1] 1)\n"
                              "Jmp(to=end)\n"
                              "other:\n"
                              "$1 = Neg(f32[1] 1)\n"
                              "end:\n"
                              "Out($1, name=\"y\")\n"));
    /* If types differ between paths, the run decides. */
    xcvm_program_destroy(load("JmpTrue(bool[] true, to=other)\n"
                              "$1 = Relu(f32[1] 1)\n"
                              "Jmp(to=end)\n"
                              "other:\n"
                              "$1 = SequenceConstruct([f32[1] 1])\n"
                              "end:\n"
                              "$2 = Relu($1)\n"));
    /* A type that only the second time around the loop brings. */
    xcvm_program_destroy(load("$1 = Identity(f32[1] 1)\n"
                              "loop:\n"
                              "$2 = Identity($1)\n"
                              "Free($1)\n"
                              "$1 = Cast($2, to=i32)\n"
                              "Free($2)\n"
                              "$3 = Neg($1)\n"
                              "Free($3)\n"
                              "Jmp(to=loop)\n"));
    /* Unreachable instructions are not followed. */
    xcvm_program_destroy(load("Jmp(to=end)\n$1 = Relu($2)\nend:\n"));
}
END_TEST

/* Programs that the text cannot express. */
static void check_image(void (*tamper)(xcvm_image *image), const char *part)
{
    test_bytes b = assemble("$1 = Relu(f32[1] 1)\n$2 = Add($1, $1)\nJmp(to=0)\n");
    xcvm_program program = {.allocator = *xcvm_allocator_or_default(NULL), .isa = xcvm_kernel_isa()};
    xcvm_error error = {0};
    program.arena.allocator = &program.allocator;
    xcvm_status status = xcvm_image_decode(b.at, b.length, &program.allocator, &program.arena, &program.image, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    tamper(&program.image);
    ck_assert_int_ne(xcvm_program_verify(&program, &error), XCVM_OK);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
    xcvm_arena_release(&program.arena);
    test_bytes_free(&b);
}

static void far_constant(xcvm_image *image) { ((int32_t *)image->instructions[0].in)[0] = -5; }
static void negative_result(xcvm_image *image) { ((int32_t *)image->instructions[0].out)[0] = -1; }
static void absent_operand(xcvm_image *image) { ((int32_t *)image->instructions[1].in)[1] = 0; }
static void far_jump(xcvm_image *image) { ((xcvm_Jmp_args *)image->instructions[2].args)->to = 4; }
static void negative_jump(xcvm_image *image) { ((xcvm_Jmp_args *)image->instructions[2].args)->to = -1; }
static void lacking_operand(xcvm_image *image) { image->instructions[1].in_count = 1; }
static void lowest_constant(xcvm_image *image) { ((int32_t *)image->instructions[0].in)[0] = INT32_MIN; }

START_TEST(images)
{
    check_image(far_constant, "constant 4");
    check_image(lowest_constant, "constant 2147483647");
    check_image(negative_result, "register -1");
    check_image(absent_operand, "operand b is absent");
    check_image(far_jump, "instruction 4");
    check_image(negative_jump, "instruction -1");
    check_image(lacking_operand, "operand b is missing");
}
END_TEST

Suite *suite_vm_verify(void);
Suite *suite_vm_verify(void) { return SUITE_OF("vm_verify", registers, parameters, types, paths, images); }
