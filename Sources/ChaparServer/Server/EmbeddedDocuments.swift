internal import CChaparDocuments

/// The files of the operator's page, and the API's description, which are built into the program.
///
/// `CChaparDocuments` embeds them, and lists the page's scripts.
enum EmbeddedDocuments {
    /// The document of the page, into which the others are put.
    static var markup: [UInt8] { bytes(chapar_page_markup()) }
    static var style: [UInt8] { bytes(chapar_page_style()) }
    /// The texts, by language.
    static var texts: [(String, [UInt8])] {
        [
            ("en", bytes(chapar_page_texts_en())),
            ("fa", bytes(chapar_page_texts_fa())),
            ("ru", bytes(chapar_page_texts_ru())),
        ]
    }
    /// The scripts, joined in their order.
    static var scripts: [UInt8] { bytes(chapar_page_scripts()) }
    /// The API's description as it stands in the sources.
    static var apiDescription: [UInt8] { bytes(chapar_api_description()) }

    private static func bytes(_ document: chapar_document) -> [UInt8] {
        Array(UnsafeBufferPointer(start: document.bytes, count: document.count))
    }
}
