/* classify PROGRAM IMAGE.png...: shows each image as text beside the digit that the network takes it for. */
#include <xcvm/xcvm.h>

#include <stdio.h>
#include <string.h>

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb/stb_image.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, DIGITS = 10 };

static void show(const float *pixels, const float *probabilities, const char *name)
{
    static const char shades[] = " .:-=+*#%@";
    int best = 0, second = 1;
    for (int d = 0; d < DIGITS; d++)
        best = probabilities[d] > probabilities[best] ? d : best;
    second = best == 0;
    for (int d = 0; d < DIGITS; d++)
        second = d != best && probabilities[d] > probabilities[second] ? d : second;
    printf("\n");
    for (int y = 0; y < SIDE; y++) {
        printf("    ");
        for (int x = 0; x < SIDE; x++) {
            char shade = shades[(int)(pixels[y * SIDE + x] * (float)(sizeof shades - 2))];
            printf("%c%c", shade, shade);
        }
        if (y == 2)
            printf("    %s", name);
        if (y == 4)
            printf("    it is a %d (%.1f%%)", best, 100 * (double)probabilities[best]);
        if (y == 5)
            printf("    else a %d (%.1f%%)", second, 100 * (double)probabilities[second]);
        printf("\n");
    }
}

static int classify(xcvm_session *session, const char *path, xcvm_error *error)
{
    int width, height, channels;
    unsigned char *image = stbi_load(path, &width, &height, &channels, 1);
    if (image == NULL || width != SIDE || height != SIDE) {
        fprintf(stderr, "classify: %s is no PNG image of %dx%d pixels\n", path, SIDE, SIDE);
        stbi_image_free(image);
        return 6;
    }
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)image[i] / 255;
    stbi_image_free(image);

    const int64_t dims[] = {1, 1, SIDE, SIDE};
    xcvm_value *input;
    xcvm_status status = xcvm_tensor_wrap(XCVM_F32, 4, dims, pixels, (xcvm_finalizer){0}, &input, error);
    if (status == XCVM_OK) {
        status = xcvm_session_set_input(session, 0, input, error);
        xcvm_value_release(input); /* the session has its own reference */
    }
    if (status == XCVM_OK)
        status = xcvm_session_run(session, NULL, error);
    if (status != XCVM_OK) {
        fprintf(stderr, "classify: %s: %s\n", path, error->message);
        return 1;
    }
    const char *slash = strrchr(path, '/');
    show(pixels, xcvm_value_data(xcvm_session_get_output(session, 0)), slash ? slash + 1 : path);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: classify PROGRAM IMAGE.png...\n");
        return 2;
    }
    xcvm_program *program = NULL;
    xcvm_session *session = NULL;
    xcvm_error error;
    if (xcvm_program_load_file(argv[1], NULL, &program, &error) != XCVM_OK ||
        xcvm_session_create(program, NULL, &session, &error) != XCVM_OK) {
        fprintf(stderr, "classify: %s: %s\n", argv[1], error.message);
        xcvm_program_destroy(program);
        return 3;
    }
    int code = 0;
    for (int i = 2; i < argc && code == 0; i++)
        code = classify(session, argv[i], &error);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    return code;
}
