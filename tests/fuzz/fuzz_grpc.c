/* Any bytes as the messages of a ModelInfer call: framing, decompression and the reader of requests. The first byte is
 * the length of the pieces in which they arrive, the second one selects the encoding and how much of tensors may be
 * announced. A request that is accepted must have the inputs of the program, and typed contents must read as they were
 * written. */
#include "fuzz.h"

#include "server/grpc/contents.h"
#include "server/grpc/descriptors.h"
#include "server/grpc/framing.h"
#include "server/grpc/infer_read.h"
#include "server/grpc/infer_write.h"

enum { MESSAGE_LIMIT = 1 << 20 };

static const char program_text[] =
    "xcvm 1\ninput a f32[Nx2]\ninput b i8[3]\ninput c str[N]\ninput d bool[2]\noutput y f32[Nx2]\noutput z str[N]\n"
    "$1 = In(name=\"a\")\n$2 = In(name=\"c\")\nOut($1, name=\"y\")\nOut($2, name=\"z\")\n";

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(bytes, count, capacity);
}

static xcvm_status load_program(void *user, const char *path, const xcvm_load_options *options, xcvm_program **program,
                                xcvm_error *error)
{
    fuzz_bytes bytes = {0};
    xcvm_load_options copied = *options;
    (void)user;
    (void)path;
    copied.copy = true;
    xcvm_status status =
        xcvm_assemble(program_text, strlen(program_text), NULL, (xcvm_sink){fuzz_collect, &bytes}, error);
    if (status == XCVM_OK)
        status = xcvm_program_load(bytes.at, bytes.count, &copied, program, error);
    free(bytes.at);
    return status;
}

/* One server for all inputs, with a model "m". */
static xcs_server *shared_server(void)
{
    static xcs_server *server;
    const xcs_server_options options = {.size = sizeof options, .workers = 1};
    const xcs_model_options model = {
        .size = sizeof model, .name = "m", .path = "", .loader = {load_program, NULL}, .batch.max_rows = 1};
    if (server == NULL && (xcs_server_create(&options, &server, NULL) != XCVM_OK ||
                           xcs_server_load_model(server, &model, NULL) != XCVM_OK))
        abort();
    return server;
}

static void read_again(const xcvm_value *tensor)
{
    xcvm_value *again = NULL;
    xcs_text text = {0};
    xcs_contents_write(&text, tensor);
    /* An empty tensor has no contents. */
    if (xcvm_value_count(tensor) > 0 &&
        (xcs_contents_read(xcvm_wire_of(text.at, text.count), NULL, xcvm_value_dtype(tensor), xcvm_value_rank(tensor),
                           xcvm_value_dims(tensor), &again, NULL) != XCVM_OK ||
         xcvm_value_bytes(again) != xcvm_value_bytes(tensor)))
        abort();
    if (again != NULL && xcvm_value_data(tensor) != NULL &&
        memcmp(xcvm_value_data(again), xcvm_value_data(tensor), xcvm_value_bytes(tensor)) != 0)
        abort();
    xcvm_value_release(again);
    xcs_text_free(&text);
}

static void check_request(const xcs_infer *infer)
{
    const xcvm_program *program = xcs_model_program(infer->model);
    const xcvm_value *outputs[] = {infer->inputs[0], infer->inputs[2]};
    xcs_text response = {0};
    xcvm_error error;
    if (infer->input_count != 4 || infer->output_count == 0)
        abort();
    for (size_t i = 0; i < infer->input_count; i++) {
        if (xcvm_value_dtype(infer->inputs[i]) != xcvm_program_input_at(program, i)->type.dtype)
            abort();
        read_again(infer->inputs[i]);
    }
    if (xcs_infer_response_write(infer, outputs, infer->id != NULL, &response, &error) != XCVM_OK)
        abort();
    xcs_text_free(&response);
}

static bool feed_reader(void *user, const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    return xcs_infer_reader_feed(user, bytes, count, &error) == XCVM_OK;
}

static bool end_reader(void *user)
{
    (void)user;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const encodings[] = {"", "gzip", "deflate", "identity"};
    xcvm_error error;
    xcvm_wire file;
    size_t unfilled = 0;
    if (count < 2)
        return 0;
    const size_t piece = bytes[0] == 0 ? count : bytes[0];
    const char *encoding = encodings[bytes[1] & 3];
    xcs_infer_reader reader = {
        .server = shared_server(), .unfilled = &unfilled, .unfilled_limit = (size_t)bytes[1] * 4};
    reader.allocator = xcvm_allocator_or_default(NULL);
    xcs_framing framing = {.left = 0};
    const xcs_framing_options options = {.allocator = reader.allocator,
                                         .encoding = encoding,
                                         .limit = MESSAGE_LIMIT,
                                         .user = &reader,
                                         .receive = feed_reader,
                                         .end = end_reader};
    bytes += 2;
    count -= 2;
    (void)xcs_inflate_supports(encoding);
    (void)xcs_descriptor_find_symbol((const char *)bytes, count, &file);
    xcvm_status status = XCVM_OK;
    for (size_t at = 0; status == XCVM_OK && at < count; at += piece)
        status = xcs_framing_feed(&framing, &options, bytes + at, count - at < piece ? count - at : piece, &error);
    if (status == XCVM_OK && framing.message_count == 1 && xcs_framing_is_between(&framing) &&
        xcs_infer_reader_end(&reader, &error) == XCVM_OK)
        check_request(&reader.infer);
    xcs_framing_release(&framing);
    xcs_infer_reader_release(&reader);
    if (unfilled != 0)
        abort();
    return 0;
}
