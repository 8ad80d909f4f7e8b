/// The files of the operator's page, which are built into the program.
///
/// `Tests/Dashboard` reads the names of the scripts from here: a page that it serves from the sources is the same.
enum DashboardFiles {
    /// The document into which the others are put.
    static let markup = PackageResources.page_html
    static let style = PackageResources.page_css
    /// The texts, by language.
    static let texts = [
        ("en", PackageResources.en_json),
        ("fa", PackageResources.fa_json),
        ("ru", PackageResources.ru_json),
    ]
    /// The scripts in the order in which they are joined: a name is used after its file while the page starts.
    static let scripts = [
        // base
        PackageResources.dom_js,
        PackageResources.store_js,
        PackageResources.texts_js,
        PackageResources.format_js,
        PackageResources.query_js,
        PackageResources.api_js,
        PackageResources.stream_js,
        PackageResources.router_js,
        PackageResources.keyboard_js,
        // parts
        PackageResources.chip_js,
        PackageResources.timeline_js,
        PackageResources.form_js,
        PackageResources.toast_js,
        PackageResources.dialog_js,
        PackageResources.list_js,
        PackageResources.filter_js,
        PackageResources.chart_js,
        PackageResources.preview_js,
        PackageResources.health_js,
        PackageResources.tokens_js,
        PackageResources.rule_js,
        PackageResources.actions_js,
        PackageResources.shell_js,
        // views
        PackageResources.now_js,
        PackageResources.messages_js,
        PackageResources.message_js,
        PackageResources.send_js,
        PackageResources.person_js,
        PackageResources.device_js,
        PackageResources.dead_js,
        PackageResources.audiences_js,
        PackageResources.segment_js,
        PackageResources.backends_js,
        PackageResources.backend_js,
        PackageResources.quarantine_js,
        PackageResources.webhooks_js,
        PackageResources.keys_js,
        // The last: it begins.
        PackageResources.start_js,
    ]
}
