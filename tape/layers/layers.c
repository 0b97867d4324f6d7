/* Layers: a tree of named tensors and children, and traversals of it. */
#include "tape/layers/layers.h"
#include "base/array.h"
#include "ops/util/convert.h"
#include "vm/options.h"

#include <stdio.h>
#include <string.h>

/* ---- Creation ---- */

xcvm_layer *layer_make(xcvm_tape *t, const layer_kind *kind)
{
    if (tape_is_unusable(t))
        return NULL;
    xcvm_layer *l = xcvm_allocate_zeroed(t->allocator, sizeof *l);
    if (l == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "no memory for a layer (%s)", kind->name);
        return NULL;
    }
    l->tape = t;
    l->kind = kind;
    l->refs = 1;
    l->training = true;
    for (size_t i = 0; i < kind->states; i++)
        if ((l->states[i] = tape_state_slot_create(t)) == NULL) {
            xcvm_layer_destroy(l);
            return NULL;
        }
    return l;
}

bool layer_read_options(xcvm_tape *t, xcvm_layer_options *o, const xcvm_layer_options *given)
{
    if (tape_is_unusable(t) || tape_latch_failure(t, xcvm_options_read(o, sizeof *o, given, &t->error)) != XCVM_OK)
        return false;
    o->size = sizeof *o; /* for layers that this one consists of */
    if (o->dtype == XCVM_NO_DTYPE)
        o->dtype = XCVM_F32;
    if (xcvm_dtype_bits(o->dtype) == 0 || !xcvm_dtype_is_float(o->dtype)) {
        tape_fail(t, XCVM_TYPE_MISMATCH, "a layer's parameters are of a float type, not %s", xcvm_dtype_name(o->dtype));
        return false;
    }
    return true;
}

bool layer_check_size(xcvm_tape *t, const char *what, int64_t size)
{
    if (size < 1)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%s of a layer is %lld; it is at least 1", what, (long long)size);
    return !t->failed;
}

/* Copies a name that must be unique in the layer; NULL with the failure set. */
static char *copy_name(xcvm_layer *l, const char *name)
{
    xcvm_tape *t = l->tape;
    if (name == NULL || *name == '\0' || strchr(name, '/') != NULL || strlen(name) > LAYER_NAME) {
        tape_fail(t, XCVM_INVALID_ARGUMENT,
                  "\"%.100s\" is no name for a part of a layer: it is empty, has a '/', or is longer than %d bytes",
                  name != NULL ? name : "", LAYER_NAME);
        return NULL;
    }
    bool taken = false;
    for (size_t i = 0; i < l->tensor_count; i++)
        taken = taken || strcmp(l->tensors[i].name, name) == 0;
    for (size_t i = 0; i < l->child_count; i++)
        taken = taken || strcmp(l->children[i].name, name) == 0;
    if (taken) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "the layer has a \"%.100s\" already", name);
        return NULL;
    }
    char *copy = xcvm_allocate(t->allocator, strlen(name) + 1);
    if (copy == NULL)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "no memory for the name of a part of a layer");
    else
        memcpy(copy, name, strlen(name) + 1);
    return copy;
}

static void free_name(xcvm_layer *l, char *name) { xcvm_deallocate(l->tape->allocator, name, strlen(name) + 1); }

static bool add_variable(xcvm_layer *l, const char *name, xcvm_var v, bool learned)
{
    xcvm_tape *t = l->tape;
    tape_variable *variable = tape_resolve(t, v, "a tensor of a layer");
    tape_side_state *side = variable != NULL ? tape_side_reserve(variable) : NULL;
    char *copy = side != NULL ? copy_name(l, name) : NULL;
    layer_tensor *tensors =
        copy == NULL ? NULL
                     : xcvm_array_grow(t->allocator, l->tensors, l->tensor_count, &l->tensor_capacity, sizeof *tensors);
    if (tensors == NULL) {
        if (copy != NULL) {
            free_name(l, copy);
            tape_fail(t, XCVM_OUT_OF_MEMORY, "no memory for a tensor of a layer");
        }
        return false;
    }
    tape_variable_keep(variable);
    variable->refs++;
    side->layer_refs++;
    l->tensors = tensors;
    tensors[l->tensor_count++] = (layer_tensor){copy, v, variable, learned};
    return true;
}

/* The elements of a new tensor, which the caller frees; NULL with the failure set. */
static void *make_elements(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims,
                           const xcvm_initializer *initializer, size_t *bytes)
{
    size_t count;
    if (!xcvm_tensor_size(dtype, rank, dims, &count, bytes) || count > SIZE_MAX / sizeof(double)) {
        tape_fail(t, XCVM_OUT_OF_RANGE, "a tensor of a layer is too large");
        return NULL;
    }
    double *numbers = xcvm_allocate(t->allocator, count * sizeof *numbers);
    void *elements = xcvm_allocate(t->allocator, *bytes);
    bool good = numbers != NULL && elements != NULL;
    if (!good)
        tape_fail(t, XCVM_OUT_OF_MEMORY, "no memory for the %zu bytes of a layer's tensor", *bytes);
    if (good && initializer->kind == XCVM_INIT_DATA && initializer->data != NULL) {
        memcpy(elements, initializer->data, *bytes);
    } else if (good) {
        good = layer_draw(t, initializer, rank, dims, numbers, count);
        if (good && dtype == XCVM_I64)
            memset(elements, 0, *bytes);
        else if (good)
            xcvm_store_f64(dtype, elements, 0, count, numbers, false);
    }
    if (numbers != NULL)
        xcvm_deallocate(t->allocator, numbers, count * sizeof *numbers);
    if (!good && elements != NULL)
        xcvm_deallocate(t->allocator, elements, *bytes);
    return good ? elements : NULL;
}

void layer_add_tensor(xcvm_layer *l, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                      const xcvm_initializer *initializer, xcvm_initializer otherwise, bool learned)
{
    if (l == NULL || tape_is_unusable(l->tape))
        return;
    xcvm_tape *t = l->tape;
    size_t bytes;
    const bool given = initializer != NULL && initializer->kind != XCVM_INIT_DEFAULT;
    void *elements = make_elements(t, dtype, rank, dims, given ? initializer : &otherwise, &bytes);
    if (elements == NULL)
        return;
    const xcvm_var v = learned ? xcvm_tape_parameter(t, dtype, rank, dims, elements)
                               : xcvm_tape_constant(t, dtype, rank, dims, elements);
    xcvm_deallocate(t->allocator, elements, bytes);
    if (!t->failed && !add_variable(l, name, v, learned))
        xcvm_var_release(t, v);
}

void layer_share_tensor(xcvm_layer *l, const layer_tensor *tensor)
{
    (void)add_variable(l, tensor->name, tensor->v, tensor->learned);
}

xcvm_layer *layer_made(xcvm_layer *l)
{
    if (l == NULL || !l->tape->failed)
        return l;
    xcvm_layer_destroy(l);
    return NULL;
}

xcvm_layer *xcvm_layer_retain(xcvm_layer *layer)
{
    if (layer != NULL)
        layer->refs++;
    return layer;
}

void xcvm_layer_destroy(xcvm_layer *layer)
{
    if (!TAPE_ENTER(TAPE_OF(layer), xcvm_layer_destroy) || --layer->refs > 0)
        return;
    xcvm_tape *t = layer->tape;
    for (size_t i = 0; i < layer->tensor_count; i++) {
        layer_tensor *tensor = &layer->tensors[i];
        if (--tensor->variable->side->layer_refs == 0)
            xcvm_var_release(t, tensor->v);
        tape_variable_release(tensor->variable);
        free_name(layer, tensor->name);
    }
    for (size_t i = 0; i < layer->child_count; i++) {
        free_name(layer, layer->children[i].name);
        xcvm_layer_destroy(layer->children[i].layer);
    }
    for (size_t i = 0; i < LAYER_STATES; i++)
        tape_state_slot_abandon(layer->states[i]);
    xcvm_deallocate(t->allocator, layer->tensors, layer->tensor_capacity * sizeof *layer->tensors);
    xcvm_deallocate(t->allocator, layer->children, layer->child_capacity * sizeof *layer->children);
    xcvm_deallocate(t->allocator, layer, sizeof *layer);
}

/* ---- The tree ---- */

static bool contains_layer(const xcvm_layer *l, const xcvm_layer *other)
{
    bool found = l == other;
    for (size_t i = 0; i < l->child_count && !found; i++)
        found = contains_layer(l->children[i].layer, other);
    return found;
}

/* The length of the longest path below the layer. */
static uint32_t height_of(const xcvm_layer *l)
{
    uint32_t height = 0;
    for (size_t i = 0; i < l->child_count; i++) {
        const uint32_t below = height_of(l->children[i].layer) + 1;
        height = below > height ? below : height;
    }
    return height;
}

static void set_level(xcvm_layer *l, uint32_t level)
{
    if (l->level >= level)
        return;
    l->level = level;
    for (size_t i = 0; i < l->child_count; i++)
        set_level(l->children[i].layer, level + 1);
}

static bool add_child(xcvm_layer *parent, const char *name, xcvm_layer *child)
{
    xcvm_tape *t = parent->tape;
    if (child->tape != t) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "\"%.100s\" is a layer of another tape", name != NULL ? name : "");
        return false;
    }
    if (contains_layer(child, parent) || parent->level + height_of(child) + 1 >= LAYER_DEPTH) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "layers nest %d deep at most, and never in themselves", LAYER_DEPTH);
        return false;
    }
    char *copy = copy_name(parent, name);
    layer_child *children = copy == NULL ? NULL
                                         : xcvm_array_grow(t->allocator, parent->children, parent->child_count,
                                                           &parent->child_capacity, sizeof *children);
    if (children == NULL) {
        if (copy != NULL) {
            free_name(parent, copy);
            tape_fail(t, XCVM_OUT_OF_MEMORY, "no memory for a child of a layer");
        }
        return false;
    }
    parent->children = children;
    children[parent->child_count++] = (layer_child){copy, child};
    set_level(child, parent->level + 1);
    return true;
}

xcvm_layer *xcvm_layer_add(xcvm_layer *parent, const char *name, xcvm_layer *child)
{
    if (TAPE_ENTER(TAPE_OF(parent), xcvm_layer_add) && child != NULL && add_child(parent, name, child))
        return child;
    xcvm_layer_destroy(child);
    return NULL;
}

xcvm_var xcvm_layer_add_parameter(xcvm_layer *layer, const char *name, xcvm_var parameter)
{
    if (!TAPE_ENTER(TAPE_OF(layer), xcvm_layer_add_parameter))
        return TAPE_FAILED;
    if (!xcvm_var_requires_gradient(layer->tape, parameter) && !layer->tape->failed)
        tape_fail(layer->tape, XCVM_INVALID_ARGUMENT, "\"%.100s\" is no parameter: it requires no gradient",
                  name != NULL ? name : "");
    return !layer->tape->failed && add_variable(layer, name, parameter, true) ? parameter : TAPE_FAILED;
}

static const layer_child *child_of(const xcvm_layer *l, const char *name, size_t length)
{
    for (size_t i = 0; l != NULL && i < l->child_count; i++)
        if (strncmp(l->children[i].name, name, length) == 0 && l->children[i].name[length] == '\0')
            return &l->children[i];
    return NULL;
}

xcvm_var layer_find_tensor(const xcvm_layer *l, const char *name)
{
    for (size_t i = 0; l != NULL && i < l->tensor_count; i++)
        if (strcmp(l->tensors[i].name, name) == 0)
            return l->tensors[i].v;
    return XCVM_ABSENT;
}

/* Follows the path up to its last '/', and returns the rest. */
static const char *resolve_path(const xcvm_layer **l, const char *path)
{
    for (const char *slash; *l != NULL && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        const layer_child *child = child_of(*l, path, (size_t)(slash - path));
        *l = child != NULL ? child->layer : NULL;
    }
    return path;
}

xcvm_layer *xcvm_layer_get_child(const xcvm_layer *layer, const char *path)
{
    const char *name = resolve_path(&layer, path);
    const layer_child *child = child_of(layer, name, strlen(name));
    return child != NULL ? child->layer : NULL;
}

xcvm_var xcvm_layer_get_parameter(const xcvm_layer *layer, const char *path)
{
    const char *name = resolve_path(&layer, path);
    return layer_find_tensor(layer, name);
}

/* ---- Traversal ---- */

typedef struct visit {
    char path[LAYER_PATH];
    xcvm_layer_visitor visitor;
} visit;

/* The buffer is large enough, since depth and names are limited. */
static xcvm_status visit_layer(visit *v, const xcvm_layer *l, size_t used)
{
    for (size_t i = 0; i < l->tensor_count; i++) {
        const layer_tensor *tensor = &l->tensors[i];
        snprintf(v->path + used, sizeof v->path - used, "%s", tensor->name);
        XCVM_TRY(v->visitor.call(v->visitor.user, v->path, tensor->v, tensor->learned));
    }
    for (size_t i = 0; i < l->child_count; i++) {
        const int length = snprintf(v->path + used, sizeof v->path - used, "%s/", l->children[i].name);
        XCVM_TRY(visit_layer(v, l->children[i].layer, used + (size_t)length));
    }
    return XCVM_OK;
}

xcvm_status xcvm_layer_visit(const xcvm_layer *layer, xcvm_layer_visitor visitor)
{
    visit v = {.visitor = visitor};
    return layer != NULL && visitor.call != NULL ? visit_layer(&v, layer, 0) : XCVM_INVALID_ARGUMENT;
}

/* Calls body for each layer. Shared layers are visited once per path. */
static void each_layer(xcvm_layer *l, void (*body)(xcvm_layer *l, bool flag), bool flag)
{
    if (l == NULL)
        return;
    body(l, flag);
    for (size_t i = 0; i < l->child_count; i++)
        each_layer(l->children[i].layer, body, flag);
}

static void set_training(xcvm_layer *l, bool training) { l->training = training; }
void xcvm_layer_set_training(xcvm_layer *layer, bool training)
{
    if (TAPE_ENTER(TAPE_OF(layer), xcvm_layer_set_training))
        each_layer(layer, set_training, training);
}

static void require_gradients(xcvm_layer *l, bool wanted)
{
    for (size_t i = 0; i < l->tensor_count; i++)
        if (l->tensors[i].learned)
            tape_variable_require(l->tensors[i].variable, wanted);
}

xcvm_status xcvm_layer_set_frozen(xcvm_layer *layer, bool frozen, xcvm_error *error)
{
    XCVM_CHECK(error, layer != NULL, INVALID_ARGUMENT, "layer is NULL");
    TAPE_BEGIN(layer->tape, xcvm_layer_set_frozen, error);
    each_layer(layer, require_gradients, !frozen);
    return XCVM_OK;
}

static void reset_states(xcvm_layer *l, bool flag)
{
    (void)flag;
    for (size_t i = 0; i < l->kind->states; i++)
        tape_state_slot_write(l->states[i], XCVM_ABSENT);
}
void xcvm_layer_reset(xcvm_layer *layer)
{
    if (TAPE_ENTER(TAPE_OF(layer), xcvm_layer_reset))
        each_layer(layer, reset_states, false);
}

static void unchain_states(xcvm_layer *l, bool flag)
{
    (void)flag;
    for (size_t i = 0; i < l->kind->states && !l->tape->mode->builds; i++) {
        const xcvm_var v = layer_state(l, i);
        if (v.at != NULL)
            xcvm_var_unchain(l->tape, v);
    }
}
void xcvm_layer_unchain(xcvm_layer *layer)
{
    if (TAPE_ENTER(TAPE_OF(layer), xcvm_layer_unchain))
        each_layer(layer, unchain_states, false);
}

static void clear_grads(xcvm_layer *l, bool flag)
{
    (void)flag;
    for (size_t i = 0; i < l->tensor_count; i++)
        tape_variable_clear_gradient(l->tensors[i].variable);
}
void xcvm_layer_clear_gradients(xcvm_layer *layer)
{
    if (TAPE_ENTER(TAPE_OF(layer), xcvm_layer_clear_gradients))
        each_layer(layer, clear_grads, false);
}

/* A shared tensor is counted at its first path. */
typedef struct counting {
    const xcvm_layer *root;
    size_t count, seen, at;
    const tape_variable *wanted;
    bool found;
} counting;

static xcvm_status find_before(void *user, const char *path, xcvm_var v, bool learned)
{
    counting *c = user;
    (void)path;
    (void)learned;
    c->found = c->found || (c->at < c->seen && v.at == c->wanted);
    c->at++;
    return XCVM_OK;
}

static xcvm_status count_tensor(void *user, const char *path, xcvm_var v, bool learned)
{
    counting *c = user;
    (void)path;
    c->wanted = v.at;
    c->at = 0;
    c->found = false;
    if (learned && xcvm_layer_visit(c->root, (xcvm_layer_visitor){find_before, c}) == XCVM_OK && !c->found)
        c->count += xcvm_element_count(tape_variable_type(v.at));
    c->seen++;
    return XCVM_OK;
}

size_t xcvm_layer_element_count(const xcvm_layer *layer)
{
    counting c = {.root = layer};
    (void)xcvm_layer_visit(layer, (xcvm_layer_visitor){count_tensor, &c});
    return c.count;
}

/* ---- Calls ---- */

int layer_rank_of(xcvm_tape *t, xcvm_var x)
{
    const tape_variable *v = tape_is_unusable(t) ? NULL : tape_resolve_optional(t, x, "the operand of a layer");
    return v != NULL ? tape_variable_type(v)->rank : -1;
}

xcvm_var xcvm_layer_call(xcvm_layer *layer, xcvm_var x)
{
    return TAPE_ENTER(TAPE_OF(layer), xcvm_layer_call) ? layer->kind->call(layer, x) : TAPE_FAILED;
}

xcvm_var layer_call_child(xcvm_layer *l, const char *name, xcvm_var x)
{
    return xcvm_layer_call(xcvm_layer_get_child(l, name), x);
}

xcvm_var layer_state(const xcvm_layer *l, size_t state) { return tape_state_slot_read(l->states[state]); }

void layer_set_state(xcvm_layer *l, size_t state, xcvm_var v)
{
    xcvm_tape *t = l->tape;
    const xcvm_var kept = t->mode->builds ? v : xcvm_var_keep(t, v);
    if (!t->failed)
        tape_state_slot_write(l->states[state], kept);
}
