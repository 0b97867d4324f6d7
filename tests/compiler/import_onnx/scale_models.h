/* Models of a kind and a size, for what must not grow faster than they do: compile time, compile memory. */
#ifndef XCVM_TESTS_COMPILER_IMPORT_ONNX_SCALE_MODELS_H
#define XCVM_TESTS_COMPILER_IMPORT_ONNX_SCALE_MODELS_H

#include "tests/support.h"

#include <xcvm/compiler.h>

/* name, and what there are `size` of in the model */
#define SCALE_KINDS(X)                                                                                                 \
    X(nodes, "nodes in a chain")                                                                                       \
    X(initializers, "initializers, each added to what came before")                                                    \
    X(unused_initializers, "initializers that nothing reads")                                                          \
    X(inputs, "inputs that nothing reads")                                                                             \
    X(outputs, "outputs, of a node each")                                                                              \
    X(operands, "operands of one Concat")                                                                              \
    X(results, "results of one Split")                                                                                 \
    X(attributes, "attributes of the call of a function")                                                              \
    X(functions, "functions, and a call of each")                                                                      \
    X(function_results, "results of a function")                                                                       \
    X(opsets, "opset imports, and nodes")                                                                              \
    X(dimensions, "named dimensions of inputs that are added up")                                                      \
    X(concats, "concatenations in a chain")                                                                            \
    X(readers, "nodes that read one value")                                                                            \
    X(live, "values in use at once")                                                                                   \
    X(equal, "nodes that compute the same")                                                                            \
    X(foldable, "nodes that depend on constants alone")                                                                \
    X(shapes, "chains of Shape, Add and Reshape")                                                                      \
    X(transposes, "Transposes in a chain")                                                                             \
    X(products, "products by matrices of their own")                                                                   \
    X(convolutions, "convolutions by filters of their own, of one image, concatenated")                                \
    X(affine, "Mul and Add by a constant, in turn")                                                                    \
    X(sequence, "insertions into a sequence")                                                                          \
    X(branches, "nodes in Ifs, one behind the other")                                                                  \
    X(loops, "nodes in Loops, one behind the other")                                                                   \
    X(states, "states of one Loop")                                                                                    \
    X(kept, "states that runs keep, inputs and outputs of the model")                                                  \
    X(caches, "caches that Attention extends, states that runs keep")                                                  \
    X(depth, "nodes in Ifs that are nested 30 deep")                                                                   \
    X(loop_depth, "nodes in Loops that are nested 30 deep")                                                            \
    X(names, "bytes of names, a thousand each")

typedef enum scale_kind {
#define SCALE_KIND(name, what) SCALE_##name,
    SCALE_KINDS(SCALE_KIND)
#undef SCALE_KIND
        SCALE_KIND_COUNT
} scale_kind;

typedef struct scale_kind_info {
    const char *name, *what;
} scale_kind_info;
extern const scale_kind_info scale_kinds[SCALE_KIND_COUNT];

/* The model's bytes, to be freed with test_bytes_free. Ends the process where there is no memory. */
test_bytes scale_model(scale_kind kind, size_t size);

/* Rows of the caches, which the options need, too. */
enum { SCALE_CACHE_ROWS = 8 };
/* The state pairs of xcc_options for such a model, released with free; NULL and 0 if there are none. */
xcc_state_pair *scale_state_pairs(scale_kind kind, size_t size, size_t *count);

/* A chain of `count` nodes. Each folded result has `bytes` bytes, and all are outputs. */
test_bytes scale_fold_bomb(size_t count, size_t bytes);
/* Consecutive calls of a function with this number of nodes. */
test_bytes scale_call_bomb(size_t calls, size_t nodes);
/* A chain of nodes with these names. */
test_bytes scale_named(char *const *names, size_t count);

#endif
