/* Runs operator cases (tests/case_runner.h) in WebAssembly: cases FILE... with the files below a preopened directory.
 */
#include "tests/case_gradient.h"
#include "tests/case_runner.h"

#include <stdio.h>

/* Gradients are programs of the same instructions, which have cases of their own. */
bool case_gradient_check(const test_bytes *file, const case_gradient *gradient, case_reason *why)
{
    (void)file;
    (void)gradient;
    (void)why;
    return true;
}

int main(int argc, char **argv)
{
    static char report[1 << 16];
    case_counts all = {0};
    for (int i = 1; i < argc; i++) {
        report[0] = '\0';
        const case_counts counts = case_file_run(argv[i], report, sizeof report);
        if (report[0] != '\0')
            puts(report);
        all.run += counts.run;
        all.failed += counts.failed;
    }
    printf("%zu cases, %zu failed\n", all.run, all.failed);
    return all.failed != 0;
}
