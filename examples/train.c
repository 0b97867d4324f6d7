/* train.c: online training, one step at a time.
 *
 *     train digits/untrained.onnx digits/digits.npz trained.onnx
 *
 * Batches come from arrays in memory. The program prints the loss and writes the trained model. xct_trainer_fit
 * implements training loops over files, with shuffling, schedules and checkpoints. */
#include <xcvm/train.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, STEPS = 200 };

static bool write_file(void *file, const void *bytes, size_t count)
{
    return fwrite(bytes, 1, count, (FILE *)file) == count;
}

static int fail(const xcvm_error *error)
{
    fprintf(stderr, "%s: %s\n", xcvm_status_name(error->status), error->message);
    return EXIT_FAILURE;
}

/* Reads the examples from `first` on. Pixels and labels are bytes in the file; the model needs floats and 64-bit
 * integers. */
static void fill(const xcvm_value *from, size_t first, xcvm_value *to)
{
    const unsigned char *bytes = xcvm_value_data(from);
    size_t rows = (size_t)xcvm_value_dims(from)[0], row = xcvm_value_count(from) / rows;
    for (size_t i = 0; i < BATCH * row; i++) {
        unsigned char number = bytes[(first * row + i) % (rows * row)];
        if (xcvm_value_dtype(to) == XCVM_F32)
            ((float *)xcvm_value_data(to))[i] = (float)number;
        else
            ((int64_t *)xcvm_value_data(to))[i] = number;
    }
}

/* Trains, and returns an exit code. */
static int learn(xct_trainer *trainer, const xcvm_value *images, const xcvm_value *labels, xcvm_value *image,
                 xcvm_value *label)
{
    const xcvm_value *batch[] = {image, label};
    xct_result result = {.size = sizeof result};
    xcvm_error error;
    for (size_t step = 1; step <= STEPS; step++) {
        fill(images, (step - 1) * BATCH, image);
        fill(labels, (step - 1) * BATCH, label);
        if (xct_trainer_step(trainer, batch, NULL, &result, &error) != XCVM_OK)
            return fail(&error);
        if (step % 50 == 0)
            printf("step %zu  loss %.4f  %s %.3f\n", step, result.loss, result.metrics[0].name,
                   result.metrics[0].value);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: train MODEL.onnx DATA.npz TRAINED.onnx\n");
        return EXIT_FAILURE;
    }
    static const char *const metrics[] = {"accuracy"};
    const xcc_options compile = {.size = sizeof compile,
                                 .train = "adam:lr=0.003",
                                 .loss = "softmax_cross_entropy",
                                 .training.train_batch_normalization = true};
    const xct_trainer_options options = {.size = sizeof options,
                                         .compile = &compile,
                                         .label = "label",
                                         .metrics = metrics,
                                         .metric_count = 1,
                                         .init = "he"};
    xct_trainer *trainer = NULL;
    xct_arrays *arrays = NULL;
    xcvm_value *images = NULL, *labels = NULL, *image = NULL, *label = NULL;
    xcvm_error error;
    FILE *file = NULL;
    int code = EXIT_FAILURE;
    if (xct_trainer_create_file(argv[1], &options, &trainer, &error) != XCVM_OK ||
        xct_arrays_load_file(argv[2], NULL, &arrays, &error) != XCVM_OK ||
        xct_arrays_read(arrays, xct_arrays_find(arrays, "images"), XCVM_NO_DTYPE, &images, &error) != XCVM_OK ||
        xct_arrays_read(arrays, xct_arrays_find(arrays, "labels"), XCVM_NO_DTYPE, &labels, &error) != XCVM_OK ||
        xcvm_tensor_create(NULL, XCVM_F32, 4, (int64_t[]){BATCH, 1, 8, 8}, &image, &error) != XCVM_OK ||
        xcvm_tensor_create(NULL, XCVM_I64, 1, (int64_t[]){BATCH}, &label, &error) != XCVM_OK)
        code = fail(&error);
    else
        code = learn(trainer, images, labels, image, label);
    if (code == EXIT_SUCCESS) {
        file = fopen(argv[3], "wb");
        if (file == NULL || xct_trainer_export(trainer, (xcvm_sink){write_file, file}, &error) != XCVM_OK ||
            fclose(file) != 0) {
            fprintf(stderr, "%s cannot be written\n", argv[3]);
            code = EXIT_FAILURE;
        }
    }
    xcvm_value_release(images);
    xcvm_value_release(labels);
    xcvm_value_release(image);
    xcvm_value_release(label);
    xct_arrays_destroy(arrays);
    xct_trainer_destroy(trainer);
    return code;
}
