/* Tests of observers. */
#include "tests/vm/support.h"

typedef struct seen {
    int before, after;
    xcvm_status fail_with;
    int32_t fail_at;
    size_t live[8];
    uint64_t flops, bytes_written;
    char attributes[128], node[32], name[32];
} seen;

static void before(void *user, const xcvm_event *event)
{
    seen *s = user;
    ck_assert_uint_eq(event->size, sizeof *event);
    ck_assert_int_eq(event->pc, s->before++);
    ck_assert_uint_eq(event->end_ns, 0);
    ck_assert_uint_gt(event->start_ns, 0);
}

static xcvm_status after(void *user, const xcvm_event *event, xcvm_error *error)
{
    seen *s = user;
    ck_assert_int_eq(event->pc, s->after);
    ck_assert_uint_ge(event->end_ns, event->start_ns);
    s->live[s->after++] = event->live_bytes;
    if (strcmp(event->instruction, "Transpose") == 0) {
        s->flops = event->flops;
        s->bytes_written = event->bytes_written;
        strcpy(s->attributes, event->attributes);
        strcpy(s->node, event->node);
        strcpy(s->name, event->output_names[0]);
        ck_assert_uint_eq(event->input_count, 1);
        ck_assert_uint_eq(event->output_count, 1);
        ck_assert_int_eq(event->input_registers[0], 2);
        ck_assert_int_eq(event->output_registers[0], 3);
        ck_assert_uint_eq(event->bytes_read, 16);
        ck_assert_float_eq(XCVM_CDATA(float, event->outputs[0])[1], -3);
    }
    if (strcmp(event->instruction, "Neg") == 0) {
        ck_assert_str_eq(event->output_names[0], "");
        ck_assert_uint_gt(event->flops, 0);
    }
    if (strcmp(event->instruction, "Free") == 0)
        ck_assert_int_eq(xcvm_value_kind(event->inputs[0]), XCVM_KIND_NULL);
    if (event->pc == s->fail_at)
        return xcvm_error_set(error, s->fail_with, "the observer has seen enough");
    return XCVM_OK;
}

static const char *const texts[] = {"input x f32[2x2]\n"
                                    "output y f32[2x2]\n"
                                    "$1 = In(name=\"x\")\n"
                                    "$2 = Neg($1)\n"
                                    "$3 = Transpose($2, perm=[1 0]) node=\"turn\" name=\"turned\"\n"
                                    "Free($2)\n"
                                    "Out($3, name=\"y\")\n"
                                    "Free($3)\n",
                                    "arena 128\n"
                                    "input x f32[2x2]\n"
                                    "output y f32[2x2]\n"
                                    "$1 = In(name=\"x\")\n"
                                    "$2 = Neg($1) slot=0+16\n"
                                    "$3 = Transpose($2, perm=[1 0]) slot=64+16 node=\"turn\" name=\"turned\"\n"
                                    "Free($2)\n"
                                    "Out($3, name=\"y\")\n"
                                    "Free($3)\n"};

START_TEST(events)
{
    xcvm_program *program = load(texts[_i]);
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4};
    seen s = {.fail_at = -1};
    xcvm_observer observer = {
        .size = sizeof observer, .before = before, .after = after, .user = &s, .want_attributes = true};
    set_f32(session, 0, 2, DIMS(2, 2), x);
    xcvm_session_set_observer(session, &observer);
    for (int round = 0; round < 3; round++) {
        s.before = s.after = 0;
        run_session(session);
        ck_assert_int_eq(s.before, 6);
        ck_assert_int_eq(s.after, 6);
        ck_assert_str_eq(s.attributes, "perm=[1 0]");
        ck_assert_str_eq(s.node, "turn");
        ck_assert_str_eq(s.name, "turned");
        ck_assert_uint_eq(s.bytes_written, 16);
        ck_assert_uint_eq(s.live[0], 0);
        ck_assert_uint_eq(s.live[1], 16);
        ck_assert_uint_eq(s.live[2], 32);
        ck_assert_uint_eq(s.live[3], 16);
    }
    s.before = s.after = 0;
    s.fail_at = 2;
    s.fail_with = XCVM_OUT_OF_RANGE;
    xcvm_error error;
    ck_assert_int_eq(xcvm_session_run(session, NULL, &error), XCVM_OUT_OF_RANGE);
    ck_assert_int_eq(error.pc, 2);
    ck_assert_str_eq(error.node, "turn");
    ck_assert_str_eq(error.message, "the observer has seen enough");
    xcvm_session_set_observer(session, NULL);
    s.before = s.after = 0;
    run_session(session);
    ck_assert_int_eq(s.before, 0);
    CHECK_F32(session, 0, -1, -3, -2, -4);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

static xcvm_status count_spans(void *user, const xcvm_event *event, xcvm_error *error)
{
    size_t *spans = user;
    (void)error;
    for (size_t i = 0; i < event->span_count; i++) {
        ck_assert_uint_le(event->start_ns, event->spans[i].start_ns);
        ck_assert_uint_ge(event->end_ns, event->spans[i].end_ns);
        ck_assert_int_lt(event->spans[i].worker, 2);
    }
    *spans += event->span_count;
    return XCVM_OK;
}

START_TEST(spans)
{
    xcvm_program *program = load("$1 = Expand(f32[1] 1, i64[1] 4000000)\n$2 = Exp($1)\n");
    xcvm_session_options options = {.size = sizeof options, .threads = 2};
    xcvm_session *session = open_session(program, &options);
    size_t count = 0;
    xcvm_observer observer = {.size = sizeof observer, .after = count_spans, .user = &count, .want_spans = true};
    xcvm_session_set_observer(session, &observer);
    run_session(session);
    ck_assert_uint_ge(count, 2);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_observe(void);
Suite *suite_vm_observe(void)
{
    Suite *suite = SUITE_OF("vm_observe", spans);
    TCase *each = tcase_create("each program");
    tcase_add_loop_test(each, events, 0, 2);
    suite_add_tcase(suite, each);
    return suite;
}
