/* A program that is built without a model: a building tape with a loop, compiled, loaded and run. Newton's square root
 * of each element, until all changes are small. */
#include "seed.h"

typedef struct program_bytes {
    char data[1 << 16];
    size_t count;
} program_bytes;

static bool collect(void *user, const void *piece, size_t count)
{
    program_bytes *bytes = user;
    if (count > sizeof bytes->data - bytes->count)
        return false;
    for (size_t i = 0; i < count; i++)
        bytes->data[bytes->count++] = ((const char *)piece)[i];
    return true;
}

static void newton(void *user, xcvm_tape *t, xcvm_var iteration, size_t state_count, xcvm_var *states,
                   size_t scan_count, xcvm_var *scans, xcvm_var *go_on)
{
    const xcvm_var x = *(const xcvm_var *)user, half = xcvm_tape_scalar(t, XCVM_F32, 0.5);
    const xcvm_var next = xcvm_Mul(t, half, xcvm_Add(t, states[0], xcvm_Div(t, x, states[0])));
    const xcvm_var change = xcvm_ReduceMax(t, xcvm_Abs(t, xcvm_Sub(t, next, states[0])), .keepdims = 0);
    (void)iteration;
    (void)state_count;
    (void)scan_count;
    (void)scans;
    *go_on = xcvm_Greater(t, change, xcvm_tape_scalar(t, XCVM_F32, 1e-6));
    states[0] = next;
}

int main(void)
{
    static program_bytes bytes;
    xcvm_error error;
    xcvm_tape *t = open_tape(XCVM_TAPE_BUILDING);
    xcvm_var x = xcvm_tape_input(t, "x", XCVM_F32, 1, DIMS(-1), NULL), root = x;
    xcvm_tape_loop(t, xcvm_tape_scalar(t, XCVM_I64, 50), XCVM_ABSENT, (xcvm_tape_loop_body){newton, &x}, 1, &root, 0,
                   NULL);
    const xcvm_tape_output output = {"root", root};
    must(xcvm_tape_compile(t, 1, &output, NULL, (xcvm_sink){collect, &bytes}, NULL, &error), &error);
    xcvm_tape_destroy(t);

    xcvm_program *program;
    xcvm_session *session;
    xcvm_value *input;
    float elements[] = {1, 2, 9, 100, 0.25f};
    must(xcvm_program_load(bytes.data, bytes.count, NULL, &program, &error), &error);
    must(xcvm_session_create(program, NULL, &session, &error), &error);
    must(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(5), elements, (xcvm_finalizer){0}, &input, &error), &error);
    must(xcvm_session_set_input(session, 0, input, &error), &error);
    must(xcvm_session_run(session, NULL, &error), &error);
    print_value("root", xcvm_session_get_output(session, 0));
    xcvm_value_release(input);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    return 0;
}
