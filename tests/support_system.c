/* Functions of tests/support.h that need a POSIX system: locales and the residency of pages. */
#include "tests/support.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool test_comma_locale(void)
{
    /* What localedef of the GNU C library makes of LC_NUMERIC with decimal_point "," and thousands_sep ".". */
    static const char numeric[] =
        "\x14\x11\x03\x20\x06\0\0\0\x20\0\0\0\x22\0\0\0\x24\0\0\0\x28\0\0\0\x2c\0\0\0\x30\0\0\0"
        ",\0.\0\x03\x03\0\0,\0\0\0.\0\0\0ANSI_X3.4-1968";
    char folder[] = "/tmp/xcvm-locale-XXXXXX", inner[64], path[96];
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(inner, sizeof inner, "%s/comma", folder);
    snprintf(path, sizeof path, "%s/LC_NUMERIC", inner);
    FILE *file = mkdir(inner, 0700) == 0 ? fopen(path, "wb") : NULL;
    bool set = file != NULL && fwrite(numeric, 1, sizeof numeric, file) == sizeof numeric;
    if (file != NULL)
        fclose(file);
    setenv("LOCPATH", folder, 1);
    set = set && setlocale(LC_NUMERIC, "comma") != NULL && strcmp(localeconv()->decimal_point, ",") == 0;
    unsetenv("LOCPATH");
    unlink(path);
    rmdir(inner);
    rmdir(folder);
    return set;
}

size_t test_resident_pages(const void *memory, size_t bytes)
{
    unsigned char pages[8192];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)memory / page * page;
    const size_t count = ((uintptr_t)memory + bytes - begin + page - 1) / page;
    size_t resident = 0;
    if (count > sizeof pages || mincore((void *)begin, count * page, pages) != 0)
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        resident += pages[i] & 1;
    return resident;
}
