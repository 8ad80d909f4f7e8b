internal import ChaparCore
internal import Foundation

/// The stored form of campaigns, as ``RecordCoding`` has it: a field that this program does not know is kept.
extension Campaign {
    /// The tags of the fields; a number is never used again.
    private enum Tag {
        static let id: UInt64 = 1
        static let caller: UInt64 = 2
        static let app: UInt64 = 3
        static let record: UInt64 = 4
        static let audience: UInt64 = 5
        static let name: UInt64 = 6
        static let flags: UInt64 = 7
        static let share: UInt64 = 8
        static let collapseID: UInt64 = 9
        static let dueAt: UInt64 = 10
        static let expiresAt: UInt64 = 11
        static let perMinute: UInt64 = 12
        static let over: UInt64 = 13
        static let wave: UInt64 = 14
        static let stopAbove: UInt64 = 15
        static let credit: UInt64 = 16
        static let phase: UInt64 = 17
        static let endedAt: UInt64 = 18
        static let pausedAt: UInt64 = 19
        static let pauseReason: UInt64 = 20
        static let pass: UInt64 = 21
        static let passAt: UInt64 = 22
        static let cursor: UInt64 = 23
        static let bound: UInt64 = 24
        static let windows: UInt64 = 25
        static let matched: UInt64 = 26
        static let reached: UInt64 = 27
        static let enqueued: UInt64 = 28
        static let skipped: UInt64 = 29
        static let leaseNode: UInt64 = 30
        static let leaseUntil: UInt64 = 31
        static let expected: UInt64 = 32
    }

    private static let keepsAllFlag: Int64 = 1
    private static let pausedFlag: Int64 = 2

    /// The stored form, without ``version``.
    package var encoded: [UInt8] {
        var bytes: [UInt8] = [RecordCoding.version]
        func add(_ tag: UInt64, _ number: Int64?) {
            if let number { RecordCoding.append(tag, number: number, to: &bytes) }
        }
        func add(_ tag: UInt64, _ text: String?) {
            if let text { RecordCoding.append(tag, text.utf8, to: &bytes) }
        }
        func add(_ tag: UInt64, _ time: Date?) { add(tag, time?.millisecondsSince1970) }
        func add(_ tag: UInt64, _ number: Double?) { add(tag, number.map { Int64(bitPattern: $0.bitPattern) }) }
        add(Tag.id, id.rawValue)
        add(Tag.caller, caller)
        add(Tag.app, app.rawValue)
        RecordCoding.append(Tag.record, record.encoded, to: &bytes)
        RecordCoding.append(Tag.audience, audience, to: &bytes)
        add(Tag.name, name)
        add(Tag.flags, (keepsAll ? Self.keepsAllFlag : 0) | (isPaused ? Self.pausedFlag : 0))
        add(Tag.share, share)
        add(Tag.collapseID, collapseID)
        add(Tag.dueAt, dueAt)
        add(Tag.expiresAt, expiresAt)
        add(Tag.perMinute, pace.perMinute)
        add(Tag.over, pace.over)
        for wave in pace.waves { RecordCoding.append(Tag.wave, Self.numbers([wave.upTo, wave.pause]), to: &bytes) }
        add(Tag.stopAbove, pace.stopAbove)
        if let credit {
            let numbers = [
                Int64(bitPattern: credit.amount.bitPattern), credit.at.millisecondsSince1970,
                Int64(bitPattern: credit.spread.bitPattern),
            ]
            RecordCoding.append(Tag.credit, Self.numbers(numbers), to: &bytes)
        }
        add(Tag.phase, phase.rawValue)
        add(Tag.endedAt, endedAt)
        add(Tag.pausedAt, pausedAt)
        add(Tag.pauseReason, pauseReason)
        add(Tag.pass, pass)
        add(Tag.passAt, passAt)
        add(Tag.cursor, cursor)
        add(Tag.bound, bound)
        add(Tag.windows, windows)
        add(Tag.matched, matched)
        add(Tag.reached, reached)
        add(Tag.enqueued, enqueued)
        for (cause, count) in skipped.sorted(by: { $0.key < $1.key }) {
            RecordCoding.append(Tag.skipped, Self.numbers([count]) + Array(cause.utf8), to: &bytes)
        }
        add(Tag.leaseNode, lease?.node)
        add(Tag.leaseUntil, lease?.until)
        add(Tag.expected, expected)
        return bytes + unknown
    }

    /// Reads the stored form; nil when it is damaged, or of a later version of the coding.
    package init?(encoded bytes: [UInt8], version: Int64) {
        var numbers: [UInt64: Int64] = [:]
        var texts: [UInt64: ArraySlice<UInt8>] = [:]
        var waves: [CampaignPace.Wave] = []
        var skipped: [String: Int64] = [:]
        var unknown: [UInt8] = []
        var areParted = true
        let isWhole = RecordCoding.read(bytes) { tag, field in
            switch tag {
            case Tag.caller, Tag.app, Tag.record, Tag.audience, Tag.name, Tag.collapseID, Tag.pauseReason,
                Tag.leaseNode, Tag.credit:
                texts[tag] = field
            case Tag.wave:
                let parts = Self.numbers(in: field)
                if parts.count == 2 {
                    waves.append(CampaignPace.Wave(upTo: parts[0], pause: parts[1]))
                } else {
                    areParted = false
                }
            case Tag.skipped:
                guard let count = RecordCoding.number(in: field.prefix(8)) else { return areParted = false }
                skipped[String(decoding: field.dropFirst(8), as: UTF8.self)] = count
            case 1...Tag.expected: numbers[tag] = RecordCoding.number(in: field)
            default: RecordCoding.append(tag, field, to: &unknown)
            }
        }
        func time(_ tag: UInt64) -> Date? { numbers[tag].map { Date(millisecondsSince1970: $0) } }
        func text(_ tag: UInt64) -> String? { texts[tag].map { String(decoding: $0, as: UTF8.self) } }
        func double(_ tag: UInt64) -> Double? { numbers[tag].map { Double(bitPattern: UInt64(bitPattern: $0)) } }
        guard isWhole, areParted, let id = numbers[Tag.id], let expiresAt = time(Tag.expiresAt),
            let record = texts[Tag.record].flatMap({ NotificationRecord(encoded: Array($0)) }),
            let audience = texts[Tag.audience], let phase = numbers[Tag.phase].flatMap(Phase.init(rawValue:))
        else { return nil }
        self.init(
            id: NotificationID(rawValue: id),
            caller: text(Tag.caller) ?? "",
            app: text(Tag.app).map { AppName(rawValue: $0) } ?? .default,
            record: record,
            audience: Array(audience),
            name: text(Tag.name),
            dueAt: time(Tag.dueAt),
            expiresAt: expiresAt,
            pace: CampaignPace(
                perMinute: double(Tag.perMinute),
                over: numbers[Tag.over],
                waves: waves,
                stopAbove: double(Tag.stopAbove)
            )
        )
        self.version = version
        self.unknown = unknown
        self.phase = phase
        self.skipped = skipped
        let flags = numbers[Tag.flags] ?? 0
        (keepsAll, isPaused) = (flags & Self.keepsAllFlag != 0, flags & Self.pausedFlag != 0)
        share = double(Tag.share) ?? 1
        collapseID = text(Tag.collapseID)
        (endedAt, pausedAt, passAt) = (time(Tag.endedAt), time(Tag.pausedAt), time(Tag.passAt))
        pauseReason = text(Tag.pauseReason)
        (pass, cursor, bound) = (numbers[Tag.pass] ?? 0, numbers[Tag.cursor] ?? 0, numbers[Tag.bound])
        expected = numbers[Tag.expected]
        (windows, matched) = (numbers[Tag.windows] ?? 0, numbers[Tag.matched] ?? 0)
        (reached, enqueued) = (numbers[Tag.reached] ?? 0, numbers[Tag.enqueued] ?? 0)
        if let node = text(Tag.leaseNode), let until = time(Tag.leaseUntil) { lease = Lease(node: node, until: until) }
        if let parts = texts[Tag.credit].map({ Self.numbers(in: $0) }), parts.count == 3 {
            credit = PaceCredit(
                amount: Double(bitPattern: UInt64(bitPattern: parts[0])),
                at: Date(millisecondsSince1970: parts[1]),
                spread: Double(bitPattern: UInt64(bitPattern: parts[2]))
            )
        }
    }

    private static func numbers(_ numbers: [Int64]) -> [UInt8] {
        numbers.flatMap { number in Swift.withUnsafeBytes(of: number.littleEndian) { Array($0) } }
    }

    private static func numbers(in bytes: ArraySlice<UInt8>) -> [Int64] {
        stride(from: 0, to: bytes.count, by: 8).compactMap { RecordCoding.number(in: bytes.dropFirst($0).prefix(8)) }
    }
}
