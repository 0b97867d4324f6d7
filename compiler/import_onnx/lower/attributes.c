/* Attributes of ONNX nodes: typed, by name, each marked as read. */
#include "compiler/import_onnx/lower/attributes.h"

#include "compiler/import_onnx/lower/lowering.h"

/* Up to this number of attributes the search is linear. */
enum { FEW = 16 };

typedef Onnx__AttributeProto__AttributeType attribute_type;
#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

static const char *type_name(attribute_type type)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&onnx__attribute_proto__attribute_type__descriptor, (int)type);
    return value != NULL ? value->name : "?";
}

/* The declared type or, in the first models, the type of the field that is set. */
static attribute_type type_of(const Onnx__AttributeProto *a)
{
    if (a->has_type && a->type != TYPE(UNDEFINED))
        return a->type;
    return a->has_f           ? TYPE(FLOAT)
           : a->has_i         ? TYPE(INT)
           : a->has_s         ? TYPE(STRING)
           : a->t != NULL     ? TYPE(TENSOR)
           : a->g != NULL     ? TYPE(GRAPH)
           : a->n_floats > 0  ? TYPE(FLOATS)
           : a->n_strings > 0 ? TYPE(STRINGS)
           : a->n_tensors > 0 ? TYPE(TENSORS)
                              : TYPE(INTS);
}

/* The index of an attribute; n->attribute_count if there is none of that name. */
static size_t index_of(const xcc_lowering *n, const char *name)
{
    const struct xcc_table_entry *entry = xcc_table_lookup(&n->attribute_names, name);
    if (entry != NULL)
        return (size_t)entry->value;
    size_t i = n->attribute_names.count > 0 ? n->attribute_count : 0;
    while (i < n->attribute_count && strcmp(n->attributes[i].name, name) != 0)
        i++;
    return i;
}

xcvm_status xcc_attributes_resolve(xcc_lowering *n)
{
    const xcc_frame *frame = n->importer->frame;
    n->attributes = xcc_alloc(n->m, n->proto->n_attribute * sizeof *n->attributes);
    if (n->attributes == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = n->proto->attribute[i];
        XCVM_CHECK(n->m->error, a->name != NULL && a->name[0] != '\0', INVALID_MODEL, "attribute %zu has no name", i);
        XCVM_CHECK(n->m->error, index_of(n, a->name) == n->attribute_count, INVALID_MODEL,
                   "attribute '%s' occurs more than once", a->name);
        const char *name = a->name;
        if (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0') {
            XCVM_CHECK(n->m->error, frame->call != NULL, INVALID_MODEL,
                       "attribute '%s' refers to an attribute of a function, but the node is in no function", name);
            const size_t given = index_of(frame->call, a->ref_attr_name);
            const struct xcc_table_entry *own = xcc_table_lookup(&frame->function->defaults, a->ref_attr_name);
            if (given < frame->call->attribute_count)
                a = frame->call->attributes[given].proto;
            else if (own != NULL)
                a = (const Onnx__AttributeProto *)(intptr_t)own->value;
            else
                continue;
        }
        if (n->proto->n_attribute > FEW)
            XCVM_TRY(xcc_table_put(n->m, &n->attribute_names, name, (int64_t)n->attribute_count));
        n->attributes[n->attribute_count++] = (xcc_attribute){.name = name, .proto = a};
    }
    return XCVM_OK;
}

xcvm_status xcc_attributes_check(const xcc_lowering *n)
{
    for (size_t i = 0; i < n->attribute_count; i++)
        XCVM_CHECK(n->m->error, n->attributes[i].used, UNSUPPORTED, "attribute '%s' is not known for %s of opset %lld",
                   n->attributes[i].name, n->op->info.name, (long long)n->version);
    return XCVM_OK;
}

const Onnx__AttributeProto *xcc_attribute_find(xcc_lowering *n, const char *name)
{
    const size_t i = index_of(n, name);
    if (i == n->attribute_count)
        return NULL;
    n->attributes[i].used = true;
    return n->attributes[i].proto;
}

void xcc_attribute_ignore(xcc_lowering *n, const char *name) { (void)xcc_attribute_find(n, name); }

/* *a stays NULL if the attribute is absent. */
static xcvm_status find(xcc_lowering *n, const char *name, attribute_type type, const Onnx__AttributeProto **a)
{
    *a = xcc_attribute_find(n, name);
    XCVM_CHECK(n->m->error, *a == NULL || type_of(*a) == type, INVALID_MODEL,
               "attribute '%s' is of type %s, %s is needed", name, type_name(type_of(*a)), type_name(type));
    return XCVM_OK;
}

xcvm_status xcc_attribute_int(xcc_lowering *n, const char *name, int64_t fallback, int64_t *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(INT), &a));
    *value = a != NULL ? a->i : fallback;
    return XCVM_OK;
}

xcvm_status xcc_attribute_bool(xcc_lowering *n, const char *name, bool fallback, bool *value)
{
    int64_t number;
    XCVM_TRY(xcc_attribute_int(n, name, fallback, &number));
    *value = number != 0;
    return XCVM_OK;
}

xcvm_status xcc_attribute_float(xcc_lowering *n, const char *name, double fallback, double *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(FLOAT), &a));
    *value = a != NULL ? (double)a->f : fallback;
    return XCVM_OK;
}

static xcvm_status copy_text(xcc_lowering *n, const ProtobufCBinaryData *bytes, xcvm_text *text)
{
    text->at = xcc_string(n->m, (const char *)bytes->data, bytes->len);
    text->length = bytes->len;
    return text->at != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

xcvm_status xcc_attribute_text(xcc_lowering *n, const char *name, const char *fallback, xcvm_text *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(STRING), &a));
    *value = (xcvm_text){fallback, strlen(fallback)};
    return a != NULL ? copy_text(n, &a->s, value) : XCVM_OK;
}

xcvm_status xcc_attribute_ints(xcc_lowering *n, const char *name, xcvm_ints *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(INTS), &a));
    *value = a != NULL ? (xcvm_ints){a->ints, a->n_ints} : (xcvm_ints){NULL, 0};
    return XCVM_OK;
}

xcvm_status xcc_attribute_floats(xcc_lowering *n, const char *name, xcvm_floats *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(FLOATS), &a));
    *value = (xcvm_floats){NULL, 0};
    if (a == NULL)
        return XCVM_OK;
    double *floats = xcc_alloc(n->m, a->n_floats * sizeof *floats);
    if (floats == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < a->n_floats; i++)
        floats[i] = (double)a->floats[i];
    *value = (xcvm_floats){floats, a->n_floats};
    return XCVM_OK;
}

xcvm_status xcc_attribute_texts(xcc_lowering *n, const char *name, xcvm_texts *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(STRINGS), &a));
    *value = (xcvm_texts){NULL, 0};
    if (a == NULL)
        return XCVM_OK;
    xcvm_text *texts = xcc_alloc(n->m, a->n_strings * sizeof *texts);
    if (texts == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < a->n_strings; i++)
        XCVM_TRY(copy_text(n, &a->strings[i], &texts[i]));
    *value = (xcvm_texts){texts, a->n_strings};
    return XCVM_OK;
}

xcvm_status xcc_attribute_dtype(xcc_lowering *n, const char *name, xcvm_dtype fallback, xcvm_dtype *value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(INT), &a));
    *value = fallback;
    return a != NULL ? xcc_dtype_read(a->i, value, n->m->error) : XCVM_OK;
}

xcvm_status xcc_attribute_graph(xcc_lowering *n, const char *name, const Onnx__GraphProto **value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(GRAPH), &a));
    XCVM_CHECK(n->m->error, a != NULL && a->g != NULL, INVALID_MODEL, "attribute '%s', a graph, is missing", name);
    *value = a->g;
    return XCVM_OK;
}

xcvm_status xcc_attribute_tensor(xcc_lowering *n, const char *name, const Onnx__TensorProto **value)
{
    const Onnx__AttributeProto *a;
    XCVM_TRY(find(n, name, TYPE(TENSOR), &a));
    XCVM_CHECK(n->m->error, a == NULL || a->t != NULL, INVALID_MODEL, "attribute '%s' has no tensor", name);
    *value = a != NULL ? a->t : NULL;
    return XCVM_OK;
}
