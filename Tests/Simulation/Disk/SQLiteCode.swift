/// SQLite's extended result codes, which the importer leaves out.
enum SQLiteCode {
    static let ok: Int32 = 0
    static let busy: Int32 = 5
    static let ioError: Int32 = 10
    static let notFound: Int32 = 12
    static let full: Int32 = 13
    static let cannotOpen: Int32 = 14
    static let readError = ioError | 1 << 8
    static let shortRead = ioError | 2 << 8
    static let writeError = ioError | 3 << 8
    static let syncError = ioError | 4 << 8
    static let truncateError = ioError | 6 << 8
    static let deleteError = ioError | 10 << 8
    static let lockError = ioError | 15 << 8
    static let deleteMissing = ioError | 23 << 8
}
