/* Searches the descriptors: messages of descriptor.proto, which the build has made and which are valid. */
#include "server/grpc/descriptors.h"

#include <stdio.h>
#include <string.h>

extern const uint8_t xcs_service_descriptors[];
extern const size_t xcs_service_descriptors_size;

/* Field numbers: of FileDescriptorProto, DescriptorProto, EnumDescriptorProto and ServiceDescriptorProto. */
enum { NAME = 1 };
enum { FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };
enum { MESSAGE_FIELD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4, MESSAGE_ONEOF = 8 };
enum { ENUM_VALUE = 2 };
enum { SERVICE_METHOD = 2 };

typedef enum symbol_kind { NO_SYMBOL, MESSAGE, OTHER_SYMBOL } symbol_kind;

/* Reads the next field `number` that is a message or a string. */
static bool next_of(xcvm_wire *message, uint32_t number, xcvm_wire *content)
{
    xcvm_wire_field field;
    while (xcvm_wire_next(message, &field) == XCVM_WIRE_READ)
        if (field.number == number && field.type == XCVM_WIRE_BYTES) {
            *content = field.inside;
            return true;
        }
    return false;
}

static xcvm_wire text_of(xcvm_wire message, uint32_t number)
{
    xcvm_wire text = xcvm_wire_of("", 0);
    (void)next_of(&message, number, &text);
    return text;
}

static size_t length_of(xcvm_wire text) { return (size_t)(text.end - text.at); }

/* Removes "prefix." from the front of a name. Returns false if it does not begin so; *is_whole tells if it is all. */
static bool cut_prefix(xcvm_wire *name, xcvm_wire prefix, bool *is_whole)
{
    const size_t length = length_of(prefix);
    if (length_of(*name) < length || memcmp(name->at, prefix.at, length) != 0)
        return false;
    *is_whole = length_of(*name) == length;
    if (!*is_whole && name->at[length] != '.')
        return false;
    name->at += length + !*is_whole;
    return true;
}

/* Finds a name among the messages `number` of a message, which have a name but no members. */
static bool has_member(xcvm_wire message, uint32_t number, xcvm_wire name)
{
    xcvm_wire member;
    bool is_whole;
    while (next_of(&message, number, &member)) {
        xcvm_wire rest = name;
        if (cut_prefix(&rest, text_of(member, NAME), &is_whole) && is_whole)
            return true;
    }
    return false;
}

static symbol_kind find_in_enums(xcvm_wire container, uint32_t number, xcvm_wire name)
{
    xcvm_wire found;
    if (has_member(container, number, name))
        return OTHER_SYMBOL;
    /* The values of an enumeration have the scope that it has. */
    while (next_of(&container, number, &found))
        if (has_member(found, ENUM_VALUE, name))
            return OTHER_SYMBOL;
    return NO_SYMBOL;
}

/* Messages are nested one level deep. `depth` bounds the recursion in any case. */
static symbol_kind find_in_messages(xcvm_wire container, uint32_t number, xcvm_wire name, int depth)
{
    xcvm_wire message;
    bool is_whole;
    while (depth > 0 && next_of(&container, number, &message)) {
        xcvm_wire rest = name;
        if (!cut_prefix(&rest, text_of(message, NAME), &is_whole))
            continue;
        if (is_whole)
            return MESSAGE;
        const symbol_kind kind = find_in_messages(message, MESSAGE_NESTED, rest, depth - 1);
        if (kind != NO_SYMBOL)
            return kind;
        if (has_member(message, MESSAGE_FIELD, rest) || has_member(message, MESSAGE_ONEOF, rest))
            return OTHER_SYMBOL;
        return find_in_enums(message, MESSAGE_ENUM, rest);
    }
    return NO_SYMBOL;
}

static symbol_kind find_in_file(xcvm_wire file, xcvm_wire name)
{
    enum { DEEPEST = 8 };
    bool is_whole;
    xcvm_wire services = file, service;
    if (!cut_prefix(&name, text_of(file, FILE_PACKAGE), &is_whole) || is_whole)
        return NO_SYMBOL;
    while (next_of(&services, FILE_SERVICE, &service)) {
        xcvm_wire rest = name;
        if (cut_prefix(&rest, text_of(service, NAME), &is_whole) &&
            (is_whole || has_member(service, SERVICE_METHOD, rest)))
            return OTHER_SYMBOL;
    }
    const symbol_kind kind = find_in_messages(file, FILE_MESSAGE, name, DEEPEST);
    return kind != NO_SYMBOL ? kind : find_in_enums(file, FILE_ENUM, name);
}

/* The files are the messages 1 of a FileDescriptorSet. */
static xcvm_wire all_files(void) { return xcvm_wire_of(xcs_service_descriptors, xcs_service_descriptors_size); }

bool xcs_descriptor_find_file(const char *name, size_t length, xcvm_wire *file)
{
    xcvm_wire files = all_files();
    while (next_of(&files, 1, file)) {
        const xcvm_wire own = text_of(*file, NAME);
        if (length_of(own) == length && memcmp(own.at, name, length) == 0)
            return true;
    }
    return false;
}

static symbol_kind find_symbol(const char *name, size_t length, xcvm_wire *file)
{
    xcvm_wire files = all_files();
    while (next_of(&files, 1, file)) {
        const symbol_kind kind = find_in_file(*file, xcvm_wire_of(name, length));
        if (kind != NO_SYMBOL)
            return kind;
    }
    return NO_SYMBOL;
}

bool xcs_descriptor_find_symbol(const char *name, size_t length, xcvm_wire *file)
{
    return find_symbol(name, length, file) != NO_SYMBOL;
}

bool xcs_descriptor_is_message(const char *name, size_t length)
{
    xcvm_wire file;
    return find_symbol(name, length, &file) == MESSAGE;
}

void xcs_descriptor_visit_services(void (*visit)(void *user, const char *name), void *user)
{
    xcvm_wire files = all_files(), file, service;
    while (next_of(&files, 1, &file))
        for (xcvm_wire services = file; next_of(&services, FILE_SERVICE, &service);) {
            char full[200];
            const xcvm_wire package = text_of(file, FILE_PACKAGE), name = text_of(service, NAME);
            snprintf(full, sizeof full, "%.*s.%.*s", (int)length_of(package), (const char *)package.at,
                     (int)length_of(name), (const char *)name.at);
            visit(user, full);
        }
}
