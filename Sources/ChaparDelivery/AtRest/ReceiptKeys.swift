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
/// An id is 24 bytes in 32 characters: what it is about, and the first 12 bytes of an HMAC-SHA-256 over that and the
/// app's name. So an id is checked without a look at the store, and cannot be guessed. The key of a code is derived
/// from a random value that the store keeps and the number of the current 30 days: gateways on one store make and take
/// the same ids, keys change without an exchange, and ids end after 60 to 90 days.
package final class ReceiptKeys: Sendable {
    /// The name of the random value in the store.
    package static let name = "receipts.key"
    /// The time for which one key makes ids, in seconds: 30 days.
    package static let span: TimeInterval = 30 * 86_400
    /// The number of older keys whose ids are taken.
    package static let older: Int64 = 2
    /// The length of an id, in characters.
    package static let length = 32
    /// The lengths of an id's parts, in bytes: its subject with the app's tag, and its code.
    fileprivate static let subjectBytes = 12, codeBytes = 12

    private struct Memory {
        var root: SymmetricKey?
        /// The keys by their number; a few.
        var keys: [Int64: SymmetricKey] = [:]
    }

    private let state: any StateStore
    private let memory = Mutex(Memory())

    /// Makes the keys of a store; the random value is read, or made, when it is first needed.
    package init(_ state: any StateStore) { self.state = state }

    /// Returns the maker of the ids of an app's messages now.
    ///
    /// - Parameters:
    ///   - app: The app.
    ///   - now: The wall-clock time.
    /// - Returns: The maker, for one batch.
    /// - Throws: When the store that keeps the random value fails.
    package func stamp(for app: AppName, at now: Date) async throws(StoreError) -> ReceiptStamp {
        let number = Self.number(at: now)
        return ReceiptStamp(key: try await key(number), number: number, app: app)
    }

    /// Checks and reads an id.
    ///
    /// - Parameters:
    ///   - text: The id.
    ///   - apps: The apps that have such ids.
    ///   - now: The wall-clock time.
    /// - Returns: Its meaning; nil when this installation did not make it for one of the apps, or it has ended.
    /// - Throws: When the store that keeps the random value fails.
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
        let key = try await key(number)
        for app in apps where ReceiptStamp.tag(app)[...] == bytes[9..<Self.subjectBytes] {
            let stamp = ReceiptStamp(key: key, number: number, app: app)
            if stamp.hasMade(bytes) { return stamp.meaning(of: bytes) }
        }
        return nil
    }

    private func key(_ number: Int64) async throws(StoreError) -> SymmetricKey {
        if let known = memory.withLock({ $0.keys[number] }) { return known }
        let root = try await root()
        let key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: root,
            info: Data("chapar receipts \(number)".utf8),
            outputByteCount: 32
        )
        memory.withLock { memory in
            if memory.keys.count > 8 { memory.keys.removeAll() }
            memory.keys[number] = key
        }
        return key
    }

    private func root() async throws(StoreError) -> SymmetricKey {
        if let known = memory.withLock({ $0.root }) { return known }
        let kept = try await state.loadState(Self.name, where: { $0.count == 32 }) {
            SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        }
        let root = SymmetricKey(data: kept)
        memory.withLock { $0.root = root }
        return root
    }

    /// Returns the number of the key that makes ids at a time.
    private static func number(at now: Date) -> Int64 {
        max(0, Int64(clamping: (now.timeIntervalSince1970 / span).rounded(.down)))
    }

    /// Returns the part of a key's number that an id has.
    fileprivate static func low(_ number: Int64) -> UInt8 { UInt8(truncatingIfNeeded: number & 0x7F) }
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
