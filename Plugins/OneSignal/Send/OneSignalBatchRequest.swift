import Crypto
import Foundation
import ChaparCore
import Synchronization

/// One request for several recipients, with the key by which OneSignal recognizes a repeat.
struct OneSignalBatchRequest: Sendable, Hashable {
    /// How the targets are addressed.
    enum Form: Hashable, Sendable {
        case subscriptions
        case users
        case tokens(TokenService)
        /// An audience that is one target: a segment, filters.
        case audience(OneSignalAudience)
    }

    /// The deliveries and the targets they stand for: ids, tokens; several deliveries may share one.
    struct Member: Sendable, Hashable {
        var message: MessageID
        var target: String
    }

    var form: Form
    var members: [Member]
    /// A UUID, the same for the same deliveries to the same targets through the same backend.
    var key: String

    init(_ form: Form, _ members: [Member], backend: String) {
        self.form = form
        self.members = members
        key = Self.key(backend, members)
    }

    init(_ form: Form, _ members: [Member], key: String) {
        self.form = form
        self.members = members
        self.key = key
    }

    /// The targets, each once, in order.
    var targets: [String] {
        var seen: Set<String> = []
        return members.map(\.target).filter { seen.insert($0).inserted }
    }

    var audience: OneSignalAudience {
        switch form {
        case .subscriptions: .subscriptions(targets)
        case .users: .aliases(label: "external_id", ids: targets)
        case .tokens(let service): .tokens(targets, service)
        case .audience(let audience): audience
        }
    }

    /// Returns a UUID of version 5 (RFC 9562) over the backend's name and the sorted deliveries with their targets.
    static func key(_ backend: String, _ members: [Member]) -> String {
        var hash = Insecure.SHA1()
        // Chapar's own name space, drawn once.
        hash.update(data: [
            0x8c, 0x1e, 0x4a, 0x73, 0x5d, 0x20, 0x4b, 0x96, 0xa1, 0x7f, 0x3e, 0x52, 0x0b, 0xd4, 0xc6, 0x18,
        ])
        hash.update(data: Array("\(backend)\n".utf8))
        for line in members.map({ "\($0.message) \($0.target)\n" }).sorted() { hash.update(data: Array(line.utf8)) }
        var bytes = Array(hash.finalize().prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x50
        bytes[8] = bytes[8] & 0x3F | 0x80
        let half = { (part: ArraySlice<UInt8>) in part.reduce(UInt64(0)) { $0 << 8 | UInt64(truncatingIfNeeded: $1) } }
        return MessageID(high: half(bytes[0..<8]), low: half(bytes[8..<16])).description
    }
}

/// The outcome of one request for each of its targets.
struct OneSignalOutcomes: Sendable {
    /// The outcome of each target that is not in `exceptions`.
    var outcome: DeliveryOutcome
    /// The outcomes of single targets.
    var exceptions: [String: DeliveryOutcome] = [:]
    /// Whether the same request may be sent again with the same key.
    var isOpen = false

    func outcome(for target: String) -> DeliveryOutcome { exceptions[target] ?? outcome }
}

/// Keeps the requests that have no final answer yet, so that each is repeated unchanged, even if a caller needs only a
/// part of it.
///
/// A gateway that starts again, or retries, may group deliveries in another way. The new group would be another request
/// with another key, and the platform would send twice. Requests for more than one recipient are therefore kept in the
/// gateway's store before they are sent, up to ``slots`` at a time, and further ones in memory. The key of a single
/// recipient follows from the delivery.
actor OneSignalLedger {
    private struct Entry {
        var chunk: OneSignalBatchRequest
        var slot: Int?
        var since: Date
        var sending: Task<OneSignalOutcomes, Never>?
        var verdict: OneSignalOutcomes?
        var unreported: Set<MessageID>
    }

    /// The most requests in the store at a time; further ones are kept in memory only.
    static let slots = 128
    /// The most deliveries that are remembered.
    static let capacity = 1_000_000
    /// The age, in seconds, from which a stored request is not read again: a day before the 30 days for which OneSignal
    /// keeps its key.
    private static let keyLife: TimeInterval = 29 * 86400

    private let state: (any StateStore)?
    private let prefix: String
    private let time: any TimeSource
    private var entries: [String: Entry] = [:]
    private var keys: [MessageID: String] = [:]
    private var freeSlots: [Int] = Array((0..<OneSignalLedger.slots).reversed())
    private var loading: Task<Void, Never>?

    init(state: (any StateStore)?, backend: String, time: any TimeSource) {
        self.state = state
        prefix = "onesignal/\(backend)/chunk"
        self.time = time
    }

    /// Returns the open request of each of these deliveries; deliveries without one are left out.
    func find(_ messages: [MessageID]) async -> [MessageID: OneSignalBatchRequest] {
        await load()
        var found: [MessageID: OneSignalBatchRequest] = [:]
        for message in messages {
            guard let key = keys[message], let entry = entries[key] else { continue }
            found[message] = entry.chunk
        }
        return found
    }

    /// Sends a request once, however many callers ask for it at the same time, and returns the same outcomes to all of
    /// them.
    func send(
        _ chunk: OneSignalBatchRequest,
        for told: [MessageID],
        _ body: @escaping @Sendable (OneSignalBatchRequest) async -> OneSignalOutcomes
    ) async -> OneSignalOutcomes {
        await load()
        let verdict: OneSignalOutcomes
        if let known = entries[chunk.key]?.verdict {
            verdict = known
        } else if let sending = entries[chunk.key]?.sending {
            verdict = await sending.value
        } else {
            let isNew = open(chunk)
            // Unstructured, since several callers may share it; each of them awaits it.
            let task = Task {
                if isNew { await self.keep(chunk) }
                return await body(chunk)
            }
            entries[chunk.key]?.sending = task
            verdict = await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                task.cancel()
            }
            entries[chunk.key]?.sending = nil
            entries[chunk.key]?.verdict = verdict.isOpen ? nil : verdict
        }
        if !verdict.isOpen { await markReported(chunk.key, told) }
        return verdict
    }

    /// Forgets a request that surely made nothing, so that its deliveries can be grouped anew.
    func forget(_ key: String) async { await close(key) }

    // MARK: Keeping

    /// Enters a request; false when it is known already.
    private func open(_ chunk: OneSignalBatchRequest) -> Bool {
        guard entries[chunk.key] == nil else { return false }
        trim()
        entries[chunk.key] = Entry(chunk: chunk, since: time.now, unreported: Set(chunk.members.map(\.message)))
        for member in chunk.members { keys[member.message] = chunk.key }
        return true
    }

    private func keep(_ chunk: OneSignalBatchRequest) async {
        guard chunk.members.count > 1, let state, let slot = freeSlots.popLast() else { return }
        entries[chunk.key]?.slot = slot
        // When the store fails, the request still goes out; only a crash in this moment could double it.
        try? await state.saveState("\(prefix)/\(slot)", chunk.stored(since: time.now))
    }

    private func markReported(_ key: String, _ messages: [MessageID]) async {
        entries[key]?.unreported.subtract(messages)
        if entries[key]?.unreported.isEmpty ?? false { await close(key) }
    }

    private func close(_ key: String) async {
        guard let entry = entries.removeValue(forKey: key) else { return }
        for member in entry.chunk.members where keys[member.message] == key { keys[member.message] = nil }
        guard let slot = entry.slot else { return }
        try? await state?.saveState("\(prefix)/\(slot)", nil)
        freeSlots.append(slot)
    }

    /// Forgets the oldest requests when more than ``capacity`` deliveries are remembered.
    private func trim() {
        guard keys.count > Self.capacity else { return }
        let oldest = entries.filter { $0.value.sending == nil }.sorted { $0.value.since < $1.value.since }
        for (key, entry) in oldest {
            guard keys.count > Self.capacity / 2 else { return }
            for member in entry.chunk.members { keys[member.message] = nil }
            if let slot = entry.slot { freeSlots.append(slot) }
            entries[key] = nil
        }
    }

    /// Reads, once, the requests that an earlier process left open.
    private func load() async {
        if let loading { return await loading.value }
        let task = Task { await self.read() }
        loading = task
        await task.value
    }

    private func read() async {
        guard let state else { return }
        let oldest = time.now.addingTimeInterval(-Self.keyLife)
        for slot in 0..<Self.slots {
            guard let bytes = try? await state.loadState("\(prefix)/\(slot)") else { continue }
            guard let (chunk, since) = OneSignalBatchRequest.read(bytes), since > oldest else { continue }
            freeSlots.removeAll { $0 == slot }
            entries[chunk.key] = Entry(
                chunk: chunk,
                slot: slot,
                since: since,
                unreported: Set(chunk.members.map(\.message))
            )
            for member in chunk.members { keys[member.message] = chunk.key }
        }
    }
}

extension OneSignalBatchRequest {
    /// Returns a line for the request, and one for each member; nil for an audience.
    fileprivate func stored(since: Date) -> [UInt8]? {
        let formName: String
        switch form {
        case .subscriptions: formName = "subscriptions"
        case .users: formName = "users"
        case .tokens(let service): formName = service.rawValue
        case .audience: return nil  // One member, whose key follows from the delivery.
        }
        let lines = members.map { "\($0.message) \($0.target)" }
        return Array("\(key) \(formName) \(since.millisecondsSince1970)\n\(lines.joined(separator: "\n"))".utf8)
    }

    fileprivate static func read(_ bytes: [UInt8]) -> (OneSignalBatchRequest, Date)? {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let head = lines.first?.split(separator: " ") ?? []
        guard head.count == 3, let since = Int64(head[2]) else { return nil }
        let form: Form =
            switch head[1] {
            case "subscriptions": .subscriptions
            case "users": .users
            default: .tokens(TokenService(rawValue: String(head[1])))
            }
        var members: [Member] = []
        for line in lines.dropFirst() {
            let sides = line.split(separator: " ", maxSplits: 1)
            guard sides.count == 2, let uuid = UUID(uuidString: String(sides[0])) else { return nil }
            members.append(Member(message: MessageID(uuid), target: String(sides[1])))
        }
        return (OneSignalBatchRequest(form, members, key: String(head[0])), Date(millisecondsSince1970: since))
    }
}

extension MessageID {
    fileprivate init(_ uuid: UUID) {
        let bytes = withUnsafeBytes(of: uuid.uuid) { Array($0) }
        let half = { (part: ArraySlice<UInt8>) in part.reduce(UInt64(0)) { $0 << 8 | UInt64(truncatingIfNeeded: $1) } }
        self.init(high: half(bytes[0..<8]), low: half(bytes[8..<16]))
    }
}
