/*
 * ort_save LEVEL IN.onnx OUT.onnx: the model as ONNX Runtime saves it when it has optimized it. LEVEL is 1 (basic), 2
 * (extended) or 99 (all, for this CPU), as in its C API.
 */
#include "ort.h"

static void must(void *status)
{
    if (status != NULL)
        give_up("says", ((const char *(*)(void *))(uintptr_t)api[GET_ERROR_MESSAGE])(status));
}

int main(int argc, char **argv)
{
    void *environment, *options, *session;
    if (argc != 4)
        give_up("usage:", "ort_save LEVEL IN.onnx OUT.onnx");
    api = OrtGetApiBase()->get_api(20);
    must(CALL(CREATE_ENV, 4, "save", &environment));
    must(CALL(CREATE_OPTIONS, &options));
    must(CALL(SET_OPT_LEVEL, options, atoi(argv[1])));
    must(CALL(SET_LOG_SEVERITY, options, 4));
    must(CALL(SET_OPTIMIZED_PATH, options, argv[3]));
    must(CALL(CREATE_SESSION, environment, argv[2], options, &session));
    RELEASE(RELEASE_SESSION, session);
    return 0;
}
