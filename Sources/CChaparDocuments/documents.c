#include "documents.h"

// The files stand beside the code that uses them. The compiler of Swift needs minutes for the
// same bytes as arrays, which is how SwiftPM embeds resources.

#pragma clang diagnostic ignored "-Wc23-extensions"

#define DOCUMENT(name) \
    struct chapar_document chapar_##name(void) { \
        struct chapar_document document = {name, sizeof name}; \
        return document; \
    }

static const unsigned char page_markup[] = {
#embed "../ChaparServer/Dashboard/page.html"
};
DOCUMENT(page_markup)

static const unsigned char page_style[] = {
#embed "../ChaparServer/Dashboard/page.css"
};
DOCUMENT(page_style)

static const unsigned char page_texts_en[] = {
#embed "../ChaparServer/Dashboard/texts/en.json"
};
DOCUMENT(page_texts_en)

static const unsigned char page_texts_fa[] = {
#embed "../ChaparServer/Dashboard/texts/fa.json"
};
DOCUMENT(page_texts_fa)

static const unsigned char page_texts_ru[] = {
#embed "../ChaparServer/Dashboard/texts/ru.json"
};
DOCUMENT(page_texts_ru)

// The scripts in the order in which they are joined: a name is used after its file while the page starts. Tests/Dashboard
// reads their names from here.
static const unsigned char page_scripts[] = {
    // base
#embed "../ChaparServer/Dashboard/base/dom.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/store.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/texts.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/format.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/query.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/api.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/stream.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/router.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/keyboard.js" suffix(,)
    // parts
#embed "../ChaparServer/Dashboard/parts/chip.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/timeline.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/form.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/toast.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/dialog.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/list.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/filter.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/chart.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/preview.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/health.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/tokens.js" suffix(,)
#embed "../ChaparServer/Dashboard/parts/rule.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/actions.js" suffix(,)
#embed "../ChaparServer/Dashboard/base/shell.js" suffix(,)
    // views
#embed "../ChaparServer/Dashboard/views/now.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/messages.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/message.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/send.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/person.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/device.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/dead.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/audiences.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/segment.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/backends.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/backend.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/quarantine.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/webhooks.js" suffix(,)
#embed "../ChaparServer/Dashboard/views/keys.js" suffix(,)
    // The last: it begins.
#embed "../ChaparServer/Dashboard/base/start.js" suffix(,)
};
DOCUMENT(page_scripts)

static const unsigned char api_description[] = {
#embed "../ChaparServer/OpenAPI/openapi.json"
};
DOCUMENT(api_description)

static const unsigned char plugin_in_swift[] = {
#embed "../ChaparCommands/Plugin/swift.template"
};
DOCUMENT(plugin_in_swift)

static const unsigned char plugin_in_python[] = {
#embed "../ChaparCommands/Plugin/python.template"
};
DOCUMENT(plugin_in_python)
