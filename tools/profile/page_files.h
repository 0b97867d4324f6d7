/* The files of this directory that the build makes strings of. */
#ifndef XCVM_TOOLS_PROFILE_PAGE_FILES_H
#define XCVM_TOOLS_PROFILE_PAGE_FILES_H

extern const char report_page_css[], report_page_js[];
extern const char report_profile_html[], report_profile_js[];
extern const char report_diff_html[], report_diff_js[];

#endif
