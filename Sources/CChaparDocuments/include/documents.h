#include <stddef.h>

/// A file that is built into the program, or several that are joined.
struct chapar_document {
    const unsigned char *bytes;
    size_t count;
};

/// The operator's page: the document into which the others are put.
struct chapar_document chapar_page_markup(void);
/// Its style.
struct chapar_document chapar_page_style(void);
/// Its texts in English, as JSON.
struct chapar_document chapar_page_texts_en(void);
/// Its texts in Persian.
struct chapar_document chapar_page_texts_fa(void);
/// Its texts in Russian.
struct chapar_document chapar_page_texts_ru(void);
/// Its scripts, joined.
struct chapar_document chapar_page_scripts(void);
/// The description of the API, OpenAPI 3.1.
struct chapar_document chapar_api_description(void);
/// The files of a new plugin, with placeholders: a package in Swift.
struct chapar_document chapar_plugin_in_swift(void);
/// The same of a service in Python.
struct chapar_document chapar_plugin_in_python(void);
