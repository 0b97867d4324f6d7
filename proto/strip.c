/* Strip: removes debug data from a program. */
#include "proto/image.h"
#include "proto/recognize.h"

xcvm_status xcvm_strip(const void *bytes, size_t count, xcvm_sink sink, xcvm_error *error)
{
    xcvm_arena arena = {0};
    xcvm_image image;
    xcvm_status status = xcvm_image_decode(bytes, count, NULL, &arena, &image, error);
    status = xcvm_recognize_failure(status, bytes, count, XCVM_FILE_PROGRAM, error);
    if (status == XCVM_OK) {
        for (size_t i = 0; i < image.instruction_count; i++)
            image.instructions[i].debug = (xcvm_debug){.node = ""};
        status = xcvm_image_encode(&image, NULL, sink, error);
    }
    xcvm_arena_release(&arena);
    return status;
}
