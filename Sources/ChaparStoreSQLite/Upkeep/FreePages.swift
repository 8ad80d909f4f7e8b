import ChaparCore
import ChaparQueue

/// The free pages of the file: how many there are, and their return to the file system, a little at a time.
///
/// Used by the writer's thread only.
final class FreePages {
    /// The number of free pages that the file keeps.
    private static let spare: Int64 = 500
    /// The share of the file's pages that stays free as well, one in this number: under a steady load the room that a
    /// purge makes is taken again at once.
    private static let spareShare: Int64 = 16
    /// The number of pages that one step returns to the file system.
    private static let vacuumed: Int64 = 256

    private let transaction: Transaction
    private let sql: PageStatements
    /// Whether free pages can be returned to the file system.
    private let givesPagesBack: Bool
    /// The bytes of a page.
    private let pageBytes: Int64

    init(_ transaction: Transaction, _ opened: OpenedStore) throws(StoreError) {
        self.transaction = transaction
        sql = try PageStatements(transaction.connection)
        givesPagesBack = opened.givesPagesBack
        pageBytes = opened.pageBytes
    }

    /// Returns free pages at the end of the file to the file system, when many are free; returns whether there are
    /// more.
    func giveBack() throws(StoreError) -> Bool {
        let (pages, free) = (try number(sql.pageCount), try number(sql.freePages))
        guard free > max(pages / Self.spareShare, Self.spare), givesPagesBack else { return false }
        while try sql.vacuum.next() {}
        return free.subtracting(clamping: Self.vacuumed) > max(pages / Self.spareShare, Self.spare)
    }

    /// Returns free pages to the file system until none is left, a part at a time; returns whether there are more.
    ///
    /// Free pages hold removed data. In a file that cannot return them they were overwritten when they became free.
    func clear() throws(StoreError) -> Bool {
        guard givesPagesBack else { return false }
        // At least an eighth of them, so that this ends although other commits free pages meanwhile.
        for _ in 0...(try number(sql.freePages) / 8 / Self.vacuumed) { while try sql.vacuum.next() {} }
        return try number(sql.freePages) > 0
    }

    /// Records how much of the file is in use, about once a second.
    func measure() {
        let (core, now) = (transaction.core, transaction.now)
        guard core.disk.wantsUsage(now: now) else { return }
        do throws(StoreError) {
            let (pages, free) = (try number(sql.pageCount), try number(sql.freePages))
            let used = pages.subtracting(clamping: free).multiplied(clamping: pageBytes)
            core.disk.note(DiskGuard.Usage(used: used, free: free.multiplied(clamping: pageBytes)), now: now)
        } catch {
            core.status.record(error, now: now)
        }
    }

    private func number(_ statement: SQLStatement) throws(StoreError) -> Int64 {
        guard try statement.next() else { return 0 }
        defer { statement.reset() }
        return try statement.integer(0)
    }
}

/// The statements about the file's pages.
private struct PageStatements {
    let pageCount: SQLStatement
    let freePages: SQLStatement
    let vacuum: SQLStatement

    init(_ connection: OpaquePointer) throws(StoreError) {
        pageCount = try SQLStatement(connection, "PRAGMA page_count")
        freePages = try SQLStatement(connection, "PRAGMA freelist_count")
        vacuum = try SQLStatement(connection, "PRAGMA incremental_vacuum(256)")
    }
}
