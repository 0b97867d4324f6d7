/* The reader of protobuf's wire format, at the edges of numbers and of the bytes. */
#include "proto/wire.h"
#include "tests/suites.h"

#include <check.h>

START_TEST(varints)
{
    static const uint64_t values[] = {
        0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX - 1, UINT64_MAX, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t bytes[XCVM_VARINT_SIZE];
        const size_t length = xcvm_varint_put(bytes, values[i]);
        for (size_t cut = 0; cut <= length; cut++) {
            xcvm_wire wire = xcvm_wire_of(bytes, cut);
            uint64_t value = 0;
            ck_assert_int_eq(xcvm_wire_varint(&wire, &value), cut == length);
            ck_assert(cut < length || (value == values[i] && wire.at == wire.end));
        }
    }
    /* The tenth byte has one bit of the 64, and there is no eleventh. */
    static const uint8_t longer[][11] = {{255, 255, 255, 255, 255, 255, 255, 255, 255, 2},
                                         {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0}};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        xcvm_wire wire = xcvm_wire_of(longer[i], sizeof longer[i]);
        uint64_t value;
        ck_assert(!xcvm_wire_varint(&wire, &value));
    }
}
END_TEST

START_TEST(fields)
{
    static const uint8_t bytes[] = {1 << 3 | XCVM_WIRE_VARINT,
                                    5,
                                    2 << 3 | XCVM_WIRE_64BIT,
                                    8,
                                    7,
                                    6,
                                    5,
                                    4,
                                    3,
                                    2,
                                    1,
                                    3 << 3 | XCVM_WIRE_BYTES,
                                    2,
                                    'a',
                                    'b',
                                    4 << 3 | XCVM_WIRE_32BIT,
                                    4,
                                    3,
                                    2,
                                    1};
    static const size_t ends[] = {0, 2, 11, 15, 20};
    static const uint64_t values[] = {5, UINT64_C(0x0102030405060708), 2, 0x01020304};
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        xcvm_wire wire = xcvm_wire_of(bytes, cut);
        xcvm_wire_field field;
        size_t read = 0;
        while (ends[read] < cut && cut >= ends[read + 1]) {
            ck_assert_int_eq(xcvm_wire_next(&wire, &field), XCVM_WIRE_READ);
            ck_assert_uint_eq(field.value, values[read]);
            ck_assert_uint_eq(field.number, ++read);
        }
        ck_assert_int_eq(xcvm_wire_next(&wire, &field), cut == ends[read] ? XCVM_WIRE_END : XCVM_WIRE_CUT_OFF);
    }
    xcvm_wire wire = xcvm_wire_of(bytes + 11, 4);
    xcvm_wire_field field;
    ck_assert_int_eq(xcvm_wire_next(&wire, &field), XCVM_WIRE_READ);
    ck_assert(field.inside.at == bytes + 13 && field.inside.end == bytes + 15);
}
END_TEST

START_TEST(no_fields)
{
    static const struct {
        uint64_t key;
        xcvm_wire_state state;
    } cases[] = {{0, XCVM_WIRE_BAD_NUMBER},
                 {7, XCVM_WIRE_BAD_NUMBER},
                 {UINT64_C(1) << 32, XCVM_WIRE_BAD_NUMBER},
                 {1 << 3 | 3, XCVM_WIRE_BAD_TYPE},
                 {1 << 3 | 4, XCVM_WIRE_BAD_TYPE},
                 {1 << 3 | 6, XCVM_WIRE_BAD_TYPE},
                 {((UINT64_C(1) << 29) - 1) << 3, XCVM_WIRE_READ}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[XCVM_VARINT_SIZE + 1];
        const size_t length = xcvm_varint_put(bytes, cases[i].key);
        bytes[length] = 0;
        xcvm_wire wire = xcvm_wire_of(bytes, length + 1);
        xcvm_wire_field field;
        ck_assert_int_eq(xcvm_wire_next(&wire, &field), cases[i].state);
    }
}
END_TEST

Suite *suite_proto_wire(void);
Suite *suite_proto_wire(void)
{
    Suite *suite = suite_create("proto_wire");
    TCase *tests = tcase_create("wire");
    tcase_add_test(tests, varints);
    tcase_add_test(tests, fields);
    tcase_add_test(tests, no_fields);
    suite_add_tcase(suite, tests);
    return suite;
}
