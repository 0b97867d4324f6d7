/* Lists that grow item by item. Sequences without other readers are changed in place, so the number of copies is linear
 * in the number of items, not quadratic. */
#include "base/value.h"
#include "tests/compiler/import_onnx/onnx_text.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <string.h>

enum { ITEMS = 1000 };

/* Items of sequences that instructions moved or shared, because the result is not where their first operand is. */
static xcvm_status count_moved(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)error;
    size_t *moved = user;
    const bool changes =
        strcmp(event->instruction, "SequenceInsert") == 0 || strcmp(event->instruction, "SequenceErase") == 0 ||
        strcmp(event->instruction, "SequenceUpdate") == 0 || strcmp(event->instruction, "SequenceExtend") == 0;
    if (changes && event->inputs[0]->data != event->outputs[0]->data)
        *moved += event->inputs[0]->count;
    return XCVM_OK;
}

/* Runs a model with the input trips, an i64 scalar; `length` is what its output n has to be. Returns the items moved in
 * the second run, which nothing is new to. */
static size_t moved_by(const char *text, int64_t trips, int64_t length)
{
    test_bytes model = onnx_from_text(text), bytes = {0};
    xcvm_error error;
    xcvm_status status = xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s\n%s", error.message, text);
    xcvm_program *program;
    xcvm_session *session;
    xcvm_value *count;
    size_t moved = 0;
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    const xcvm_observer observer = {.size = sizeof observer, .after = count_moved, .user = &moved};
    ck_assert_int_eq(xcvm_program_load(bytes.at, bytes.length, NULL, &program, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_I64, 0, NULL, &count, &error), XCVM_OK);
    *XCVM_DATA(int64_t, count) = trips;
    ck_assert_int_eq(xcvm_session_set_input(session, 0, count, &error), XCVM_OK);
    xcvm_value_release(count);
    xcvm_session_set_observer(session, &observer);
    for (int i = 0; i < 2; i++) {
        moved = 0;
        status = xcvm_session_run(session, NULL, &error);
        ck_assert_msg(status == XCVM_OK, "%s: %s\n%s", error.instruction, error.message, text);
        ck_assert_int_eq(*XCVM_CDATA(int64_t, xcvm_session_get_output(session, 0)), length);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    test_bytes_free(&bytes);
    test_bytes_free(&model);
    return moved;
}

#define HEAD "opset 17\nopset org.chainer 1\ninput trips i64[]\noutput n\n"
#define TAIL "n = SequenceLength(y)\n"

START_TEST(appending)
{
    /* A full list grows by half: in the end 2 items per item, plus the first few. */
    size_t moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                                 "d = Identity(c)\nt = SequenceInsert(s, i)\n}\n"
                                 "e = SequenceEmpty() dtype=i64\ny = Loop(trips, _, e) body=@body\n" TAIL,
                            ITEMS, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
    moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                          "d = Identity(c)\nt = org.chainer::SequenceAppend(s, i)\n}\n"
                          "e = SequenceEmpty() dtype=i64\ny = Loop(trips, _, e) body=@body\n" TAIL,
                     ITEMS, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
}
END_TEST

START_TEST(extending)
{
    size_t moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                                 "d = Identity(c)\np = SequenceConstruct(i, i)\nt = org.chainer::GenericAdd(s, p)\n}\n"
                                 "e = SequenceEmpty() dtype=i64\ny = Loop(trips, _, e) body=@body\n" TAIL,
                            ITEMS, 2 * ITEMS);
    ck_assert_uint_le(moved, 6 * ITEMS);
}
END_TEST

/* An item is moved from the end of one list to the end of another; both exist at the start. */
START_TEST(popping)
{
    size_t moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\ninput r seq(i64)\n"
                                 "output d\noutput t\noutput q\nd = Identity(c)\n"
                                 "t, x = org.chainer::SequencePop(s)\nq = org.chainer::SequenceAppend(r, x)\n}\n"
                                 "e = SequenceEmpty() dtype=i64\ns = org.chainer::SequenceRange(trips)\n"
                                 "l, y = Loop(trips, _, s, e) body=@body\n" TAIL,
                            ITEMS, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
}
END_TEST

START_TEST(updating)
{
    size_t moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                                 "d = Identity(c)\nt = org.chainer::SequenceUpdate(s, i, trips)\n}\n"
                                 "s = org.chainer::SequenceRange(trips)\ny = Loop(trips, _, s) body=@body\n" TAIL,
                            ITEMS, ITEMS);
    ck_assert_uint_eq(moved, 0);
}
END_TEST

/* A list with another reader is copied once. */
START_TEST(a_list_that_is_kept)
{
    size_t moved = moved_by(HEAD "output m\ngraph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\n"
                                 "output t\nd = Identity(c)\nt = org.chainer::SequenceUpdate(s, i, trips)\n}\n"
                                 "s = org.chainer::SequenceRange(trips)\ny = Loop(trips, _, s) body=@body\n"
                                 "m = Identity(s)\n" TAIL,
                            ITEMS, ITEMS);
    ck_assert_uint_le(moved, ITEMS + 1);
}
END_TEST

START_TEST(appending_in_a_branch)
{
    size_t moved =
        moved_by(HEAD "graph then {\noutput p\np = SequenceInsert(s, i)\n}\ngraph else {\noutput q\n"
                      "q = Identity(s)\n}\n"
                      "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                      "d = Identity(c)\ntwo = Constant() value_int=2\nzero = Constant() value_int=0\n"
                      "o = Mod(i, two)\nb = Equal(o, zero)\nt = If(b) then_branch=@then else_branch=@else\n}\n"
                      "e = SequenceEmpty() dtype=i64\ny = Loop(trips, _, e) body=@body\n" TAIL,
                 ITEMS, ITEMS / 2);
    ck_assert_uint_le(moved, 2 * ITEMS);
}
END_TEST

START_TEST(appending_in_a_loop_in_a_loop)
{
    size_t moved = moved_by(HEAD "graph inner {\ninput j i64[]\ninput f bool[]\ninput u seq(i64)\noutput g\noutput v\n"
                                 "g = Identity(f)\nv = SequenceInsert(u, i)\n}\n"
                                 "graph body {\ninput i i64[]\ninput c bool[]\ninput s seq(i64)\noutput d\noutput t\n"
                                 "d = Identity(c)\nten = Constant() value_int=10\nt = Loop(ten, _, s) body=@inner\n}\n"
                                 "e = SequenceEmpty() dtype=i64\ny = Loop(trips, _, e) body=@body\n" TAIL,
                            ITEMS / 10, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
}
END_TEST

START_TEST(mapping_and_scanning)
{
    size_t moved = moved_by(HEAD "graph map {\ninput x i64[]\noutput z\nz = Neg(x)\n}\n"
                                 "s = org.chainer::SequenceRange(trips)\ny = SequenceMap(s) body=@map\n" TAIL,
                            ITEMS, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
    moved = moved_by(HEAD "graph body {\ninput i i64[]\ninput c bool[]\noutput d\noutput z\nd = Identity(c)\n"
                          "z = Neg(i)\n}\ny = Loop(trips, _) body=@body\nn = Size(y)\n",
                     ITEMS, ITEMS);
    ck_assert_uint_le(moved, 3 * ITEMS);
}
END_TEST

Suite *suite_compiler_lists(void);
Suite *suite_compiler_lists(void)
{
    Suite *suite = suite_create("compiler/lists");
    TCase *tests = tcase_create("moved items");
    tcase_add_test(tests, appending);
    tcase_add_test(tests, extending);
    tcase_add_test(tests, popping);
    tcase_add_test(tests, updating);
    tcase_add_test(tests, a_list_that_is_kept);
    tcase_add_test(tests, appending_in_a_branch);
    tcase_add_test(tests, appending_in_a_loop_in_a_loop);
    tcase_add_test(tests, mapping_and_scanning);
    suite_add_tcase(suite, tests);
    return suite;
}
