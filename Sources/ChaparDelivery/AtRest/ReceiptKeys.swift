internal import Crypto
package import Foundation
package import ChaparCore
internal import Synchronization

/// The subject of a report from an app: one delivery, or a notification whose recipients share an id.
package enum ReceiptSubject: Sendable, Hashable {
    /// A delivery, by its number.
    case delivery(Int64)
    /// A notification, by its number: its platform sends one content to many recipients.
    case notification(Int64)
}

/// An id of a receipt that this installation made.
package struct ReceiptID: Sendable, Hashable {
    /// The app of the message.
    package let app: AppName
    /// The subject of reports with it.
    package let subject: ReceiptSubject
    /// The first eight bytes of its code: distinct ids have distinct marks, as far as chance goes.
    package let mark: UInt64
}

/// The keys of the ids with which apps report that a message arrived or was opened.
///
/// An id is 24 bytes in 32 characters: the delivery or notification that it is about, and the first 12 bytes of an
/// HMAC-SHA-256 over that and the app's name. So an id is checked without reading the store, and cannot be guessed. The
/// key of a code is derived from a root, a random value that the store keeps, and the number of the current 30 days:
/// gateways on one store make and accept the same ids, keys change without a message between gateways, and ids end
/// after 60 to 90 days.
///
/// ``replaceRoot(keepingOldFor:at:)`` makes another root, for a case in which others may know the old one. Ids of the
/// old root are accepted until its end.
package final class ReceiptKeys: Sendable {
    /// The name of the first root in the store; ``listName`` begins with it.
    package static let name = "receipts.key"
    /// The name of the list of roots, which a store has once a root was replaced: the newest first.
    ///
    /// It replaces the value of ``name``, which older programs go on using.
    package static let listName = "receipts.keys"
    /// The age at which the roots are read again, in seconds: another gateway may have replaced them.
    package static let readInterval: TimeInterval = 30
    /// The time between the replacement of a root and the first id with the new root, in seconds.
    ///
    /// By then all gateways have read the new root, also a gateway whose clock is ahead by less than this time.
    package static let lead: TimeInterval = 300
    /// The most roots whose ids are taken, the newest included: a forged id is compared with the codes of each.
    package static let maximumRoots = 5
    /// The longest time for which ids of an old root are accepted, in seconds.
    ///
    /// No id is valid for longer: its key is used for one ``span``, and accepted for ``older`` further spans.
    package static let longestKept = 90 * 86_400
    /// The time for which one key makes ids, in seconds: 30 days.
    package static let span: TimeInterval = 30 * 86_400
    /// The number of older keys whose ids are taken.
    package static let older: Int64 = 2
    /// The length of an id, in characters.
    package static let length = 32
    /// The lengths of an id's parts, in bytes: its subject with the app's tag, and its code.
    fileprivate static let subjectBytes = 12, codeBytes = 12

    private struct Memory {
        /// The roots as they were read last; empty before.
        var roots: [ReceiptRoot] = []
        var readAt: Date?
        /// The keys by root and number; a few.
        var keys: [KeyName: SymmetricKey] = [:]
    }

    private struct KeyName: Hashable {
        var root: [UInt8]
        var number: Int64
    }

    private let state: any StateStore
    private let memory = Mutex(Memory())

    /// Makes the keys of a store; the root is read, or made, when it is first needed.
    package init(_ state: any StateStore) { self.state = state }

    /// Returns the stamp that makes the ids of an app's messages now.
    ///
    /// - Parameters:
    ///   - app: The app.
    ///   - now: The wall-clock time.
    /// - Returns: The maker, for one batch.
    /// - Throws: When the store that keeps the root fails.
    package func stamp(for app: AppName, at now: Date) async throws(StoreError) -> ReceiptStamp {
        let number = Self.number(at: now)
        let roots = try await roots(at: now)
        guard let root = roots.first(where: { $0.begin <= now }) ?? roots.last else {
            throw .damaged("\(Self.listName) holds no key")
        }
        return ReceiptStamp(key: key(number, of: root), number: number, app: app)
    }

    /// Checks and reads an id.
    ///
    /// - Parameters:
    ///   - text: The id.
    ///   - apps: The apps that have such ids.
    ///   - now: The wall-clock time.
    /// - Returns: Its meaning; nil when this installation did not make it for one of the apps, or it has ended.
    /// - Throws: When the store that keeps the root fails.
    package func read(
        _ text: Substring,
        of apps: some Sequence<AppName> & Sendable,
        at now: Date
    ) async throws(StoreError) -> ReceiptID? {
        guard text.utf8.count == Self.length, let bytes = Base64URL.decode(text),
            bytes.count == Self.subjectBytes + Self.codeBytes
        else { return nil }
        let current = Self.number(at: now)
        // A gateway whose clock is ahead may have begun with the next key.
        let numbers = current.subtracting(clamping: Self.older)...current.adding(clamping: 1)
        guard let number = numbers.first(where: { Self.low($0) == bytes[0] & 0x7F }) else { return nil }
        let roots = try await roots(at: now)
        for app in apps where ReceiptStamp.tag(app)[...] == bytes[9..<Self.subjectBytes] {
            for root in roots where root.end > now {
                let stamp = ReceiptStamp(key: key(number, of: root), number: number, app: app)
                if stamp.hasMade(bytes) { return stamp.meaning(of: bytes) }
            }
        }
        return nil
    }

    private func key(_ number: Int64, of root: ReceiptRoot) -> SymmetricKey {
        let name = KeyName(root: root.value, number: number)
        if let known = memory.withLock({ $0.keys[name] }) { return known }
        let key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: root.value),
            info: Data("chapar receipts \(number)".utf8),
            outputByteCount: 32
        )
        memory.withLock { memory in
            if memory.keys.count > 8 * Self.maximumRoots { memory.keys.removeAll() }
            memory.keys[name] = key
        }
        return key
    }

    // MARK: Roots

    /// Returns the roots, which are read again after ``readInterval``; those that are known while the store fails.
    private func roots(at now: Date) async throws(StoreError) -> [ReceiptRoot] {
        let (known, isDue) = memory.withLock { memory in
            let age = memory.readAt.map { now.timeIntervalSince($0) }
            let isDue = age.map { !(0..<Self.readInterval).contains($0) } ?? true
            // One caller reads; the others go on with those that are known.
            if isDue, !memory.roots.isEmpty { memory.readAt = now }
            return (memory.roots, isDue)
        }
        guard isDue else { return known }
        let read: [ReceiptRoot]
        do throws(StoreError) {
            read = try await readOrMakeRoots()
        } catch {
            guard known.isEmpty else { return known }
            throw error
        }
        remember(read, at: now)
        return read
    }

    private func remember(_ roots: [ReceiptRoot], at now: Date) {
        memory.withLock { memory in
            if memory.roots != roots { memory.keys.removeAll() }
            (memory.roots, memory.readAt) = (roots, now)
        }
    }

    private func readOrMakeRoots() async throws(StoreError) -> [ReceiptRoot] {
        if let list = try await state.loadState(Self.listName) {
            guard let roots = ReceiptRoot.roots(of: list) else { throw .damaged("\(Self.listName) holds no keys") }
            return roots
        }
        let first = try await state.loadState(
            Self.name,
            where: { $0.count == ReceiptRoot.bytes },
            orMake: { ReceiptRoot.random() }
        )
        return [ReceiptRoot(value: first, begin: .distantPast, end: .distantFuture)]
    }

    /// Makes a new root, which all gateways on the store use after ``lead``, and ends the others.
    ///
    /// Old roots that cannot be read, because their key of `store.encryption` is lost or they are damaged, end at once.
    ///
    /// - Parameters:
    ///   - seconds: For how long ids of the other roots are accepted, at most ``longestKept``. With 0 they end now,
    ///     also the ids of messages that are on their way; other gateways notice it within ``readInterval``.
    ///   - now: The wall-clock time.
    /// - Returns: The replacement; nil when ``maximumRoots`` would be exceeded: then nothing was changed.
    /// - Throws: When the store fails, or cannot tell which other gateway replaces the root.
    package func replaceRoot(
        keepingOldFor seconds: Int,
        at now: Date
    ) async throws(StoreError) -> ReceiptRootExchange? {
        let result: Result<ReceiptRootExchange?, StoreError> = try await state.exclusively(Self.listName) {
            do throws(StoreError) {
                return .success(try await self.exchange(min(max(0, seconds), Self.longestKept), now))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func exchange(_ seconds: Int, _ now: Date) async throws(StoreError) -> ReceiptRootExchange? {
        let end = now.addingTimeInterval(Double(seconds))
        var roots: [ReceiptRoot] = []
        if seconds > 0 {
            do throws(StoreError) {
                roots = try await readOrMakeRoots()
            } catch {
                switch error {
                case .sealed, .damaged: break
                default: throw error
                }
            }
        }
        roots = roots.filter { $0.end > now }.map { root in
            ReceiptRoot(value: root.value, begin: root.begin, end: min(root.end, end))
        }
        guard roots.count < Self.maximumRoots else { return nil }
        let begin = roots.isEmpty ? now : now.addingTimeInterval(min(Self.lead, Double(seconds)))
        roots.insert(ReceiptRoot(value: ReceiptRoot.random(), begin: begin, end: .distantFuture), at: 0)
        try await state.saveState(Self.listName, ReceiptRoot.stored(roots))
        remember(roots, at: now)
        return ReceiptRootExchange(begin: begin, oldEnd: end, roots: roots.count)
    }

    /// Returns the number of the key that makes ids at a time.
    private static func number(at now: Date) -> Int64 {
        max(0, Int64(clamping: (now.timeIntervalSince1970 / span).rounded(.down)))
    }

    /// Returns the part of a key's number that an id has.
    fileprivate static func low(_ number: Int64) -> UInt8 { UInt8(truncatingIfNeeded: number & 0x7F) }
}

/// The result of ``ReceiptKeys/replaceRoot(keepingOldFor:at:)``.
package struct ReceiptRootExchange: Sendable {
    /// The time from which ids are made with the new root.
    package let begin: Date
    /// The time until which ids of the old roots are taken, unless one ended before.
    package let oldEnd: Date
    /// The number of roots whose ids are taken.
    package let roots: Int
}

/// A random value from which keys are derived, and its times.
private struct ReceiptRoot: Sendable, Hashable {
    static let bytes = 32
    /// The bytes of a root in the list: the value, its beginning and its end in milliseconds since 1970.
    private static let storedBytes = bytes + 16

    let value: [UInt8]
    /// The time from which it makes ids.
    let begin: Date
    /// The time from which its ids are refused.
    let end: Date

    static func random() -> [UInt8] { SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) } }

    /// Returns the stored form of a list.
    static func stored(_ roots: [ReceiptRoot]) -> [UInt8] {
        roots.flatMap { root in
            root.value
                + [root.begin, root.end].flatMap { time in
                    let number = UInt64(bitPattern: time.millisecondsSince1970)
                    return (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
                }
        }
    }

    /// Reads a list; nil for bytes that are none.
    static func roots(of stored: [UInt8]) -> [ReceiptRoot]? {
        guard !stored.isEmpty, stored.count.isMultiple(of: storedBytes),
            stored.count / storedBytes <= ReceiptKeys.maximumRoots
        else { return nil }
        return stride(from: 0, to: stored.count, by: storedBytes).map { start in
            func time(_ place: Int) -> Date {
                let number = stored[place..<place + 8].reversed().reduce(UInt64(0)) {
                    $0 << 8 | UInt64(truncatingIfNeeded: $1)
                }
                return Date(millisecondsSince1970: Int64(bitPattern: number))
            }
            return ReceiptRoot(
                value: Array(stored[start..<start + bytes]),
                begin: time(start + bytes),
                end: time(start + bytes + 8)
            )
        }
    }
}

/// Makes the ids of one app's messages, for one batch.
package struct ReceiptStamp: Sendable {
    private let key: SymmetricKey
    private let number: Int64
    private let app: AppName
    private let tag: [UInt8]

    fileprivate init(key: SymmetricKey, number: Int64, app: AppName) {
        (self.key, self.number, self.app) = (key, number, app)
        tag = Self.tag(app)
    }

    /// Returns three bytes of a hash (FNV-1a) of an app's name, so that only codes of likely apps are compared.
    fileprivate static func tag(_ app: AppName) -> [UInt8] {
        var hash: UInt32 = 2_166_136_261
        for byte in app.rawValue.utf8 { hash = (hash ^ UInt32(truncatingIfNeeded: byte)) &* 16_777_619 }
        return [16, 8, 0].map { UInt8(truncatingIfNeeded: hash >> $0) }
    }

    /// Returns the id for a subject, the same while one key makes ids.
    package func id(of subject: ReceiptSubject) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(ReceiptKeys.subjectBytes + ReceiptKeys.codeBytes)
        let (kind, value): (UInt8, Int64) =
            switch subject {
            case .delivery(let number): (0, number)
            case .notification(let number): (0x80, number)
            }
        bytes.append(kind | ReceiptKeys.low(number))
        let pattern = UInt64(bitPattern: value)
        for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: pattern >> shift)) }
        bytes += tag
        bytes += code(of: bytes)
        return Base64URL.encode(bytes)
    }

    /// Whether it made an id, in a time that does not depend on where the id differs.
    fileprivate func hasMade(_ bytes: [UInt8]) -> Bool {
        zip(code(of: bytes[..<ReceiptKeys.subjectBytes]), bytes[ReceiptKeys.subjectBytes...])
            .reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }

    fileprivate func meaning(of bytes: [UInt8]) -> ReceiptID {
        let value: UInt64 = bytes[1...8].reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) }
        let number = Int64(bitPattern: value)
        return ReceiptID(
            app: app,
            subject: bytes[0] & 0x80 == 0 ? .delivery(number) : .notification(number),
            mark: bytes[12..<20].reduce(0) { $0 << 8 | UInt64(truncatingIfNeeded: $1) }
        )
    }

    private func code(of subject: some Sequence<UInt8>) -> [UInt8] {
        let text = Array(app.rawValue.utf8) + [0] + subject
        return Array(HMAC<SHA256>.authenticationCode(for: text, using: key).prefix(ReceiptKeys.codeBytes))
    }
}
