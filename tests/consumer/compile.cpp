// A C++ program that compiles a model and runs it without a file between: compile MODEL.
#include <xcvm/compiler.h>
#include <xcvm/train.h>

#include <cstdint>
#include <cstdio>
#include <vector>

static bool append(void *user, const void *bytes, std::size_t count)
{
    auto *program = static_cast<std::vector<unsigned char> *>(user);
    auto *from = static_cast<const unsigned char *>(bytes);
    program->insert(program->end(), from, from + count);
    return true;
}

static int fail(const xcvm_error &error)
{
    std::fprintf(stderr, "compile: %s\n", error.message);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    xcvm_error error;
    std::vector<unsigned char> bytes;
    if (xcc_compile_file(argv[1], nullptr, xcvm_sink{append, &bytes}, nullptr, &error) != XCVM_OK)
        return fail(error);
    xcvm_program *program = nullptr;
    xcvm_session *session = nullptr;
    xcvm_value *input = nullptr;
    std::vector<float> pixels(8 * 8, 0.5f);
    const std::int64_t dims[] = {1, 1, 8, 8};
    if (xcvm_program_load(bytes.data(), bytes.size(), nullptr, &program, &error) != XCVM_OK ||
        xcvm_session_create(program, nullptr, &session, &error) != XCVM_OK ||
        xcvm_tensor_wrap(XCVM_F32, 4, dims, pixels.data(), xcvm_finalizer{nullptr, nullptr}, &input, &error) !=
            XCVM_OK ||
        xcvm_session_set_input(session, 0, input, &error) != XCVM_OK ||
        xcvm_session_run(session, nullptr, &error) != XCVM_OK)
        return fail(error);
    std::printf("%zu probabilities\n", xcvm_value_count(xcvm_session_get_output(session, 0)));
    xcvm_value_release(input);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
