internal import CChaparPostgres
internal import Foundation
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// One connection to the database, on a thread of its own.
///
/// Statements run one after the other, each with a deadline. One that is not answered in time ends the connection,
/// since its state is unknown then, and the server is asked to end the statement (``CancelRequest``). The connection
/// opens with the next call, no more often than its back-off allows. Except for prepared statements, which
/// ``PostgresOptions/preparesStatements`` turns off, nothing is kept in the session (no `SET`, no lock beyond a
/// transaction), so a pooler may stand in between.
actor PostgresConnection {
    private let options: PostgresOptions
    /// The statement that begins each transaction.
    ///
    /// It names the isolation level: under a stricter default of the role or the database, changes that only wait for
    /// each other here would fail as conflicts.
    private static let begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    /// The statements that follow `BEGIN` in each transaction: timeouts and planner settings.
    private let settings: [String]
    /// The statement that limits the idle time within a transaction of several statements.
    ///
    /// If the network is cut between two statements, or the process is suspended, the server would keep the locks for
    /// hours. Other nodes wait for these locks, so the limit is at most a third of a node lease.
    private let idleLimit: String
    /// The statement that limits how long the server waits, over TCP, for this process to read more of an answer.
    ///
    /// A statement whose answer is not read keeps its locks too, and it counts as active, not as idle. Nil behind a
    /// pooler, whose sessions do not belong to this store.
    private let readLimit: String?
    /// Whether a connection that the server has ended is opened anew before the next statement.
    private let reopens: Bool
    private nonisolated let thread: PostgresThread
    private var connection: OpaquePointer?
    /// The handle of a request that ends the statement under way.
    private var cancel: UnsafeMutableRawPointer?
    /// Whether the statements under way end with a commit, which must not be cancelled.
    ///
    /// A cancelled commit that waits for a standby would become visible before the standby has it.
    private var isCommitting = false
    private var isClosed = false
    /// The server's message that it takes no changes, once it has sent one: the next call opens another connection,
    /// perhaps to another server.
    private var refusal: String?
    /// The names of this session's prepared statements, by their text.
    private var prepared: [String: String] = [:]
    private var backOff: PostgresBackOff
    private var losesNextAnswer = false
    /// Whether the connection was opened anew, perhaps to another server, since its user last cleared this flag.
    nonisolated let isNew = Atomic(true)
    /// The socket while it is open, for ``interrupt()``.
    private nonisolated let socket = Mutex<Int32?>(nil)
    private nonisolated let process = Atomic<Int32>(0)

    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    /// Makes a connection that opens with its first call.
    ///
    /// With `walksIndexes` its transactions use an index instead of a sequential scan wherever they can. It is for
    /// tables that are empty now and large a moment later, since the server keeps a plan until its statistics change.
    /// JIT compilation is off too: without an index such a plan looks costly enough to be compiled. These settings do
    /// not rule out a join that reads an index from its beginning to its end, once or for each element of an array. So
    /// a statement joins a table to an array by `w.id BETWEEN a.id AND a.id`, for which only a look-up by the index can
    /// be planned (`x + 0` rules out another index). A key of several columns is looked up in a `LATERAL` query with
    /// `LIMIT 1`: a comparison of rows, `(t.tag, t.device) BETWEEN …`, reads on to the last entry with the same first
    /// column. `GrowthTests` checks each statement's plan on empty tables.
    ///
    /// With `keepsPlans` each prepared statement is planned once: planning it again for each group costs more than a
    /// better plan saves. With `reopens`, for connections that only read, a connection that the server has ended is
    /// reopened before the next statement. `settings` are further statements at the beginning of each transaction.
    init(
        _ options: PostgresOptions,
        name: String,
        walksIndexes: Bool = false,
        keepsPlans: Bool = false,
        reopens: Bool = false,
        settings: [String] = []
    ) {
        self.options = options
        backOff = PostgresBackOff(options.openings)
        self.reopens = reopens
        // A little shorter than the client's deadline, so that the server ends the statement and the connection
        // survives.
        let timeout = Self.timeout(milliseconds: options.statementTimeout.inSeconds * 900)
        var plans = walksIndexes ? ["SET LOCAL enable_seqscan = off", "SET LOCAL jit = off"] : []
        if keepsPlans, options.preparesStatements { plans.append("SET LOCAL plan_cache_mode = force_generic_plan") }
        self.settings = [timeout] + plans + settings
        let idle = Self.milliseconds(min(options.statementTimeout, options.nodeLease / 3).inSeconds * 1_000)
        idleLimit = "SET LOCAL idle_in_transaction_session_timeout = \(idle)"
        readLimit = options.preparesStatements ? "SET tcp_user_timeout = \(idle)" : nil
        thread = PostgresThread(name: name)
    }

    private static func timeout(milliseconds: Double) -> String {
        "SET LOCAL statement_timeout = \(Self.milliseconds(milliseconds))"
    }

    private static func milliseconds(_ span: Double) -> Int { max(1, Int(clamping: span)) }

    isolated deinit {
        disconnect()
        thread.end()
    }

    /// Opens a connection for `body` alone, and closes it; throws ``PostgresError/openingError``, which has all
    /// details.
    static func use<Value: Sendable>(
        _ options: PostgresOptions,
        name: String,
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(StoreError) -> Value {
        let connection = PostgresConnection(options, name: name)
        let result: Result<Value, PostgresError>
        do throws(PostgresError) {
            result = .success(try await body(connection))
        } catch {
            result = .failure(error)
        }
        await connection.close()
        do {
            return try result.get()
        } catch {
            throw error.openingError
        }
    }

    /// Runs a transaction, and rolls it back when `body` throws or a statement is refused.
    ///
    /// - Throws: ``PostgresError``; after ``PostgresError/broken(_:)`` it is not known whether a commit took place.
    func transaction<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        try connect()
        try perform(([Self.begin, idleLimit] + settings).joined(separator: "; "))
        let value: Value
        do throws(PostgresError) {
            value = try body(self)
        } catch {
            if connection != nil { try? perform("ROLLBACK") }
            throw error
        }
        isCommitting = true
        defer { isCommitting = false }
        do throws(PostgresError) {
            try perform("COMMIT")
        } catch {
            if case .unavailable(let message) = error { throw .broken(message) }
            throw error
        }
        return value
    }

    /// Runs one statement as a transaction with one round trip: everything is sent at once.
    ///
    /// The server ends a statement that takes longer than `limit`.
    ///
    /// - Throws: ``PostgresError``; after ``PostgresError/broken(_:)`` it is not known whether it took place.
    func single<Value: Sendable>(
        _ statement: String,
        _ parameters: [PostgresValue],
        within limit: Duration? = nil,
        _ read: @Sendable (borrowing PostgresRows) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        try connect()
        let settings = settings + (limit.map { [Self.timeout(milliseconds: $0.inSeconds * 1_000)] } ?? [])
        let rows: PostgresRows
        do throws(PostgresError) {
            isCommitting = true
            defer { isCommitting = false }
            rows = try runAlone(statement, parameters, settings)
        } catch {
            if case .unavailable(let message) = error, refusal == nil { throw .broken(message) }
            throw error
        }
        return try read(rows)
    }

    /// Runs a statement as a transaction of its own, with one round trip.
    private func runAlone(
        _ statement: String,
        _ parameters: [PostgresValue],
        _ settings: [String]
    ) throws(PostgresError) -> PostgresRows {
        guard let connection else { throw .unavailable("there is no connection") }
        let types = parameters.map(\.type.rawValue)
        let name = options.preparesStatements ? try prepare(statement, types, connection) : nil
        guard PQenterPipelineMode(connection) == 1 else { throw lost() }
        for text in [Self.begin] + settings { try sendPlain(text, connection) }
        try send(statement, name, types, parameters, connection)
        try sendPlain("COMMIT", connection)
        guard PQpipelineSync(connection) == 1 else { throw lost() }
        do throws(PostgresError) {
            return PostgresRows(try finishPipeline(connection, wanted: settings.count + 1))
        } catch {
            if self.connection != nil { try? perform("ROLLBACK") }
            throw error
        }
    }

    /// Runs single statements, each a transaction of its own with the connection's settings.
    func session<Value: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        try connect()
        do throws(PostgresError) {
            return try body(self)
        } catch {
            if case .unavailable(let message) = error, refusal == nil { throw .broken(message) }
            throw error
        }
    }

    /// Runs one statement with parameters, as its own transaction when none is open; returns the rows in binary form.
    @discardableResult
    func run(_ statement: String, _ parameters: [PostgresValue] = []) throws(PostgresError) -> PostgresRows {
        guard let connection else { throw .unavailable("there is no connection") }
        if PQtransactionStatus(connection) == PQTRANS_IDLE { return try runAlone(statement, parameters, settings) }
        let types = parameters.map(\.type.rawValue)
        let name = options.preparesStatements ? try prepare(statement, types, connection) : nil
        try send(statement, name, types, parameters, connection)
        return PostgresRows(try finish(connection))
    }

    /// Runs statements without parameters or rows, separated by semicolons; `span` replaces the statement timeout.
    func perform(_ statements: String, within span: Duration? = nil) throws(PostgresError) {
        guard let connection else { throw .unavailable("there is no connection") }
        guard PQsendQuery(connection, options.inSchema(statements)) == 1 else { throw lost() }
        PQclear(try finish(connection, within: span ?? options.statementTimeout))
    }

    /// The version of the server, such as 150018 for 15.18; 0 without a connection.
    var serverVersion: Int { connection.map { Int(PQserverVersion($0)) } ?? 0 }

    /// Shuts the socket down from any thread, so that a call that waits on it fails at once.
    nonisolated func interrupt() { socket.withLock { if let socket = $0 { _ = shutdown(socket, Int32(SHUT_RDWR)) } } }

    /// The process id of the server's process for this connection; nil while it is not open.
    nonisolated var serverProcess: Int64? {
        let process = process.load(ordering: .acquiring)
        return process > 0 ? Int64(process) : nil
    }

    /// Opens the connection unless it is open.
    func open() throws(PostgresError) { try connect() }

    /// Returns after all earlier calls on this connection.
    func pass() {}

    /// Makes the next single transaction take place and lose its answer; for tests.
    func loseNextAnswer() { losesNextAnswer = true }

    /// Sends statements and reads no answer, like a suspended process; for tests.
    func sendUnread(_ statements: String) throws(PostgresError) {
        try connect()
        guard let connection, PQsendQuery(connection, statements) == 1 else { throw lost() }
    }

    /// Closes it for good.
    func close() {
        isClosed = true
        disconnect()
    }

    // MARK: Notifications

    /// Waits up to `span` for notifications on the channels of this session, and returns their payloads.
    func notifications(within span: Duration) throws(PostgresError) -> [String] {
        guard let connection else { throw .unavailable("there is no connection") }
        var payloads = take(from: connection)
        if payloads.isEmpty {
            guard try Self.waits(for: PQsocket(connection), until: ContinuousClock.now + span) else { return [] }
            guard PQconsumeInput(connection) == 1 else {
                disconnect()  // No statement is under way.
                throw .unavailable("the connection broke")
            }
            payloads = take(from: connection)
        }
        return payloads
    }

    private func take(from connection: OpaquePointer) -> [String] {
        var payloads: [String] = []
        while let notify = PQnotifies(connection) {
            payloads.append(String(cString: notify.pointee.extra))
            PQfreemem(notify)
        }
        return payloads
    }

    // MARK: The wire

    private func connect() throws(PostgresError) {
        guard !isClosed else { throw .closed }
        if let connection {
            let isOpen = PQstatus(connection) == CONNECTION_OK && refusal == nil
            let hasEnded = isOpen && hasEnded(connection)
            if isOpen, !hasEnded { return }
            if let refusal { backOff.fail(refusal, isStatement: true) }
            disconnect()
            if hasEnded, !reopens { throw .ended }
        }
        guard SchemaName.isPlain(options.schema) else {
            throw .declined(.failed("the schema \"\(options.schema)\" is not a name that needs no quotes"))
        }
        if let message = backOff.refusal { throw .unavailable(message) }
        var parameters = options.parameters
        if let password = options.password { parameters["password"] = password.reveal() }
        let pairs = parameters.sorted { $0.key < $1.key }
        let opened = PostgresValue.withCStrings(pairs.map(\.key)) { keywords in
            PostgresValue.withCStrings(pairs.map(\.value)) { values in PQconnectdbParams(keywords, values, 0) }
        }
        connection = opened
        guard let opened, PQstatus(opened) == CONNECTION_OK else {
            let error = lost(or: "out of memory")
            guard case .unavailable(var message) = error else { throw error }
            if let remedy = PostgresError.remedy(for: message) { message += ": \(remedy)" }
            backOff.fail(message)
            throw .unavailable(message)
        }
        cancel = chapar_cancel_make(opened)
        let descriptor = PQsocket(opened)
        socket.withLock { $0 = descriptor }
        process.store(PQbackendPID(opened), ordering: .releasing)
        // Discards the server's notices: libpq would write them to standard error.
        PQsetNoticeReceiver(opened, { _, _ in }, nil)
        backOff.succeed()
        if let readLimit { try perform(readLimit) }
    }

    /// Checks whether the server has ended an idle connection, as a restart does.
    ///
    /// Otherwise the first statement after a restart would fail although the server is back. On a connection that
    /// writes, the call fails with ``PostgresError/ended``: the server may be another one, and the node may have been
    /// declared dead, so what is known of either is read again before the call is repeated (``StoreCore/refresh(_:)``).
    private func hasEnded(_ connection: OpaquePointer) -> Bool {
        while true {
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
            // Reading returns 0 at the end of the connection. The server may have sent a message before that.
            guard poll(&descriptor, 1, 0) > 0 else { return false }
            guard PQconsumeInput(connection) == 1 else { return true }
        }
    }

    private func disconnect() {
        isNew.store(true, ordering: .releasing)
        socket.withLock { $0 = nil }
        process.store(0, ordering: .releasing)
        if let cancel { chapar_cancel_free(cancel) }
        if let connection { PQfinish(connection) }
        (connection, cancel) = (nil, nil)
        refusal = nil
        prepared.removeAll()
    }

    /// Drops the connection while a statement is under way, and asks the server to end it unless it commits.
    private func abandon() {
        if !isCommitting, let connection, let cancel {
            (self.connection, self.cancel) = (nil, nil)
            CancelRequest.send(cancel, thenClose: connection)
        }
        disconnect()
    }

    /// Sends a statement, by name if it is prepared.
    private func send(
        _ statement: String,
        _ name: String?,
        _ types: [Oid],
        _ parameters: [PostgresValue],
        _ connection: OpaquePointer
    ) throws(PostgresError) {
        let count = Int32(clamping: parameters.count)
        let formats = [Int32](repeating: 1, count: parameters.count)
        let sent = PostgresValue.encode(parameters) { values, lengths in
            if let name {
                PQsendQueryPrepared(connection, name, count, values, lengths, formats, 1)
            } else {
                PQsendQueryParams(connection, options.inSchema(statement), count, types, values, lengths, formats, 1)
            }
        }
        guard sent == 1 else { throw lost() }
    }

    private func sendPlain(_ statement: String, _ connection: OpaquePointer) throws(PostgresError) {
        guard PQsendQueryParams(connection, statement, 0, nil, nil, nil, nil, 1) == 1 else { throw lost() }
    }

    private func prepare(
        _ statement: String,
        _ types: [Oid],
        _ connection: OpaquePointer
    ) throws(PostgresError) -> String {
        if let name = prepared[statement] { return name }
        let name = "chapar_\(prepared.count)"
        guard PQsendPrepare(connection, name, options.inSchema(statement), Int32(clamping: types.count), types) == 1
        else {
            throw lost()
        }
        PQclear(try finish(connection))
        prepared[statement] = name
        return name
    }

    /// Reads the answers to everything that was sent, and returns the last one.
    private func finish(
        _ connection: OpaquePointer,
        within span: Duration? = nil
    ) throws(PostgresError) -> OpaquePointer {
        var last: OpaquePointer?
        var failure: PostgresError?
        do throws(PostgresError) {
            let deadline = ContinuousClock.now + (span ?? options.statementTimeout)
            while let result = try nextResult(connection, until: deadline) {
                PQclear(last)
                last = result
                let status = PQresultStatus(result)
                if status != PGRES_COMMAND_OK, status != PGRES_TUPLES_OK, failure == nil {
                    failure = error(of: result)
                }
            }
            if let failure { throw failure }
        } catch {
            PQclear(last)
            if let open = self.connection, PQstatus(open) != CONNECTION_OK { disconnect() }
            throw error
        }
        guard let last else { throw lost() }
        return last
    }

    /// Reads the answers to a pipeline, and returns the one of the statement at index `wanted`.
    private func finishPipeline(_ connection: OpaquePointer, wanted: Int) throws(PostgresError) -> OpaquePointer {
        let deadline = ContinuousClock.now + options.statementTimeout
        var place = 0
        var found: OpaquePointer?
        var failure: PostgresError?
        do throws(PostgresError) {
            while true {
                guard let result = try nextResult(connection, until: deadline) else {
                    // The end of a statement's results, or of the connection.
                    guard PQstatus(connection) == CONNECTION_OK else { throw lost() }
                    place += 1
                    continue
                }
                let status = PQresultStatus(result)
                if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, place == wanted {
                    found = result
                    continue
                }
                defer { PQclear(result) }
                if status == PGRES_PIPELINE_SYNC { break }
                if status != PGRES_TUPLES_OK, status != PGRES_COMMAND_OK, status != PGRES_PIPELINE_ABORTED {
                    failure = failure ?? error(of: result)
                }
            }
            if losesNextAnswer {
                losesNextAnswer = false
                throw lost(or: "the answer was lost")
            }
            guard PQexitPipelineMode(connection) == 1 else { throw lost() }
            if let failure { throw failure }
        } catch {
            PQclear(found)
            throw error
        }
        guard let found else { throw lost() }
        return found
    }

    /// Returns the next result; nil after the last one of a statement.
    ///
    /// Closes the connection when no result comes in time, or when it breaks.
    private func nextResult(
        _ connection: OpaquePointer,
        until deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> OpaquePointer? {
        while PQisBusy(connection) == 1 {
            guard try Self.waits(for: PQsocket(connection), until: deadline) else {
                abandon()
                throw .unavailable("no answer within \(options.statementTimeout)")
            }
            guard PQconsumeInput(connection) == 1 else { throw lost() }
        }
        return PQgetResult(connection)
    }

    private func error(of result: OpaquePointer) -> PostgresError {
        func field(_ letter: Character) -> String? {
            letter.asciiValue.flatMap { PQresultErrorField(result, Int32(clamping: $0)) }.map { String(cString: $0) }
        }
        let code = field("C") ?? ""
        let error = PostgresError(code: code, message: field("M") ?? "no reason given")
        if code == PostgresError.readOnly, case .unavailable(let message) = error { refusal = message }
        return error
    }

    /// Waits until a socket can be read; returns false at the deadline.
    private static func waits(for socket: Int32, until deadline: ContinuousClock.Instant) throws(PostgresError) -> Bool
    {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return false }
            var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            let ready = poll(&descriptor, 1, Int32(clamping: Int(clamping: left.inSeconds * 1_000) &+ 1))
            if ready > 0 { return true }
            if ready < 0, errno != EINTR { throw .unavailable(String(cString: strerror(errno))) }
        }
    }

    /// Closes the connection, and returns libpq's message as an error.
    private func lost(or text: String = "the connection broke") -> PostgresError {
        let message = connection.map { String(cString: PQerrorMessage($0)) } ?? ""
        abandon()
        let lines = message.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        return .unavailable(lines.isEmpty ? text : lines.joined(separator: "; "))
    }
}
