/* The files profile.html, profile.css and profile.js of this directory, which the build makes strings of. */
#ifndef XCVM_TOOLS_PROFILE_PAGE_FILES_H
#define XCVM_TOOLS_PROFILE_PAGE_FILES_H

extern const char profile_page_html[], profile_page_css[], profile_page_js[];

#endif
