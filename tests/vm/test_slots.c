/* Tests of planned slots. */
#include "tests/vm/support.h"

START_TEST(accepted)
{
    /* One after the other. */
    xcvm_program_destroy(load("arena 128\n"
                              "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                              "$2 = Exp($1) slot=64+16\n"
                              "Free($1)\n"
                              "$3 = Transpose($2, perm=[0]) slot=0+16\n"));
    /* In place, through a view, and again. */
    xcvm_program_destroy(load("arena 64\n"
                              "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                              "$2 = Exp($1) slot=0+16\n"
                              "Free($1)\n"
                              "$3 = Reshape($2, i64[2] 2 2) slot=0+16\n"
                              "$4 = Reshape($3, i64[2] 4 1) slot=0+16\n"
                              "Free($2)\n"
                              "Free($3)\n"
                              "$5 = Add($4, $4) slot=0+16\n"
                              "Free($4)\n"));
    /* Outputs keep their slots, and views of them share. */
    xcvm_program_destroy(load("arena 128\n"
                              "output y f32[4]\n"
                              "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                              "Out($1, name=\"y\")\n"
                              "$2 = Reshape($1, i64[2] 2 2) slot=0+16\n"
                              "Free($1)\n"
                              "$3 = Relu(f32[4] 1 2 3 4) slot=64+16\n"));
    /* Inside a loop, and in the last block to the end. */
    xcvm_program_destroy(load("arena 64\n"
                              "output y f32[4]\n"
                              "loop:\n"
                              "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                              "Free($1)\n"
                              "JmpTrue(bool[] false, to=loop)\n"
                              "$2 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                              "Out($2, name=\"y\")\n"));
}
END_TEST

START_TEST(refused)
{
    check_refused("arena 64\n$1 = Relu(f32[4] 1 2 3 4) slot=64+16\n", XCVM_INVALID_PROGRAM, 0, "not inside the arena");
    check_refused("arena 64\n$1 = Relu(f32[4] 1 2 3 4) slot=0+65\n", XCVM_INVALID_PROGRAM, 0, "not inside the arena");
    check_refused("arena 64\n$1 = Relu(f32[4] 1 2 3 4) slot=18446744073709551552+128\n", XCVM_INVALID_PROGRAM, 0,
                  "not inside the arena");
    check_refused("arena 64\n$1 = Relu(f32[4] 1 2 3 4) slot=32+16\n", XCVM_INVALID_PROGRAM, 0, "multiple of 64");
    check_refused("arena 192\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+128\n"
                  "$2 = Relu(f32[4] 1 2 3 4) slot=64+16\n",
                  XCVM_INVALID_PROGRAM, 1, "overlaps that of $1");
}
END_TEST

/* A slot is used that belongs to a live value. */
START_TEST(taken)
{
    /* The operand is read while a result that is not made in place is written. */
    check_refused("arena 64\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "$2 = Transpose($1, perm=[0]) slot=0+16\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 1, "overlaps that of $1");
    /* It does not die. */
    check_refused("arena 64\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "$2 = Exp($1) slot=0+16\n"
                  "$3 = Exp($1)\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 1, "overlaps that of $1");
    /* A view of it still lives. */
    check_refused("arena 64\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "$2 = Reshape($1, i64[2] 2 2) slot=0+16\n"
                  "$3 = Exp($1) slot=0+16\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 2, "overlaps that of $1");
    /* It is an output. */
    check_refused("arena 64\n"
                  "output y f32[4]\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "Out($1, name=\"y\")\n"
                  "$2 = Exp($1) slot=0+16\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 2, "overlaps that of $1");
    check_refused("arena 64\n"
                  "output y f32[4]\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "Out($1, name=\"y\")\n"
                  "Free($1)\n"
                  "$2 = Exp(f32[4] 1 2 3 4) slot=0+16\n",
                  XCVM_INVALID_PROGRAM, 3, "overlaps that of an output");
    /* It is also read in another role. */
    check_refused("arena 64\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "$2 = Pow($1, $1) slot=0+16\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 1, "overlaps that of $1");
}
END_TEST

/* Where paths branch or join, a value may be live on one of them. */
START_TEST(across_jumps)
{
    check_refused("arena 64\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "JmpTrue(bool[] true, to=end)\n"
                  "end:\n"
                  "Free($1)\n",
                  XCVM_INVALID_PROGRAM, 1, "paths part or meet");
    check_refused("arena 64\n"
                  "output y f32[4]\n"
                  "$1 = Relu(f32[4] 1 2 3 4) slot=0+16\n"
                  "Out($1, name=\"y\")\n"
                  "Free($1)\n"
                  "JmpTrue(bool[] true, to=other)\n"
                  "$2 = Exp(f32[4] 1 2 3 4) slot=0+16\n"
                  "Free($2)\n"
                  "other:\n",
                  XCVM_INVALID_PROGRAM, 3, "paths part or meet");
}
END_TEST

START_TEST(results)
{
    xcvm_program *program = load("arena 192\n"
                                 "input x f32[4]\n"
                                 "output y f32[2x2]\n"
                                 "output z f32[4]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Add($1, f32[4] 1 1 1 1) slot=0+16\n"
                                 "$3 = Mul($2, $2) slot=0+16\n"
                                 "Free($2)\n"
                                 "$4 = Reshape($3, i64[2] 2 2) slot=0+16\n"
                                 "$5 = Neg($3) slot=64+16\n"
                                 "Free($3)\n"
                                 "$6 = Transpose($4, perm=[1 0]) slot=128+16\n"
                                 "Free($4)\n"
                                 "Out($6, name=\"y\")\n"
                                 "Free($6)\n"
                                 "$7 = Sub($5, f32[] 1) slot=64+16\n"
                                 "Free($5)\n"
                                 "Out($7, name=\"z\")\n");
    xcvm_session *session = open_default_session(program);
    float x[4] = {0, 1, 2, 3};
    set_f32(session, 0, 1, DIMS(4), x);
    for (int i = 0; i < 3; i++) {
        run_session(session);
        CHECK_F32(session, 0, 1, 9, 4, 16);
        CHECK_F32(session, 1, -2, -5, -10, -17);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* A plan for other sizes than those of the run, as a broken compiler might make it. */
START_TEST(wrong_sizes)
{
    xcvm_program *program = load("arena 128\n"
                                 "input x f32[N]\n"
                                 "input w f32[?x?]\n"
                                 "output y f32[...]\n"
                                 "output z f32[...]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = In(name=\"w\")\n"
                                 "$3 = Relu($1) slot=0+16\n"
                                 "$4 = Add($3, $2) slot=0+16\n"
                                 "Free($3)\n"
                                 "$5 = Flatten($4, axis=0) slot=0+16\n"
                                 "$6 = Neg($4) slot=64+16\n"
                                 "Out($6, name=\"z\")\n"
                                 "Free($4)\n"
                                 "$7 = Neg($5) slot=0+16\n"
                                 "Free($5)\n"
                                 "Out($7, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[8] = {10, 20, 30, 40, 50, 60, 70, 80};
    /* Fits. */
    set_f32(session, 0, 1, DIMS(4), x);
    set_f32(session, 1, 2, DIMS(1, 4), w);
    run_session(session);
    CHECK_F32(session, 0, -11, -22, -33, -44);
    CHECK_F32(session, 1, -11, -22, -33, -44);
    /* The sum is larger than the operand whose place it should take. */
    set_f32(session, 1, 2, DIMS(2, 4), w);
    run_session(session);
    CHECK_F32(session, 0, -11, -22, -33, -44, -51, -62, -73, -84);
    CHECK_F32(session, 1, -11, -22, -33, -44, -51, -62, -73, -84);
    /* Everything is smaller, and the sum still larger than the operand. */
    set_f32(session, 0, 1, DIMS(2), x);
    set_f32(session, 1, 2, DIMS(2, 2), w);
    run_session(session);
    CHECK_F32(session, 0, -11, -22, -31, -42);
    CHECK_F32(session, 1, -11, -22, -31, -42);
    /* Nothing fits. */
    set_f32(session, 0, 1, DIMS(8), x);
    set_f32(session, 1, 2, DIMS(1, 8), w);
    run_session(session);
    CHECK_F32(session, 0, -11, -22, -33, -44, -55, -66, -77, -88);
    CHECK_F32(session, 1, -11, -22, -33, -44, -55, -66, -77, -88);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_slots(void);
Suite *suite_vm_slots(void)
{
    return SUITE_OF("vm_slots", accepted, refused, taken, across_jumps, results, wrong_sizes);
}
