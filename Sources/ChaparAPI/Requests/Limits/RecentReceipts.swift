internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// The limits of reports of apps: by the id, so that a repeated report costs no look at the store, and by the app.
///
/// The address is not limited, since very many phones may share one. The limits are in the memory of one gateway, and
/// bounded.
final class RecentReceipts: Sendable {
    /// The time in which a report with an id is stored once, in seconds.
    static let span: Int64 = 60
    /// The time for which a report is remembered whose delivery was not found, in seconds: the platform's answer may
    /// still come, and then the app's next report counts.
    static let unknownSpan: Int64 = 5
    /// The number of reports that are remembered; a newer one may displace another of the same slot.
    private static let slots = 1 << 15
    /// The most shared ids whose rate is watched; beyond it their buckets begin anew.
    private static let mostShared = 1_000
    /// The part of an app's rate that one id of many recipients may use.
    private static let sharedPart = 0.5

    private struct Entry {
        var key: UInt64 = 0
        /// When it was stored, in seconds on the steady clock.
        var second = Int64.min
    }

    private struct Rates {
        var apps: [AppName: (perSecond: Int, bucket: TokenBucket)] = [:]
        var shared: [UInt64: TokenBucket] = [:]
    }

    /// Empty until the first report.
    private let entries = Mutex<[Entry]>([])
    private let rates = Mutex(Rates())

    /// Returns the key of a report with an id; two reports with one key are the same.
    ///
    /// The token is part of the key only for an id of many recipients: other ids have one report for each event.
    /// The hash has a random seed, so that callers cannot choose ids that displace each other.
    static func key(_ id: ReceiptID, _ event: PushEvent, _ token: String?) -> UInt64 {
        var hash = Hasher()
        hash.combine(id)
        hash.combine(event.rawValue)
        if case .notification = id.subject { hash.combine(token) }
        return UInt64(bitPattern: Int64(hash.finalize()))
    }

    /// Whether a report was stored within the last ``span``.
    func has(_ key: UInt64, at now: Date) -> Bool {
        entries.withLock { entries in
            guard !entries.isEmpty else { return false }
            let entry = entries[Self.slot(key)]
            return entry.key == key && Self.second(now).subtracting(clamping: entry.second) < Self.span
        }
    }

    /// Remembers a report as stored, or for ``unknownSpan`` as one whose delivery was not found.
    func note(_ key: UInt64, isUnknown: Bool, at now: Date) {
        let early = isUnknown ? Self.span.subtracting(clamping: Self.unknownSpan) : 0
        let second = Self.second(now).subtracting(clamping: early)
        entries.withLock { entries in
            if entries.isEmpty { entries = Array(repeating: Entry(), count: Self.slots) }
            entries[Self.slot(key)] = Entry(key: key, second: second)
        }
    }

    /// Takes a report from the rate of an app, and from that of an id of many recipients; returns the time to wait, nil
    /// when it may be stored.
    func take(_ id: ReceiptID, perSecond: Int, at now: Date) -> Duration? {
        rates.withLock { rates in
            var waits: Date?
            if case .notification = id.subject {
                if rates.shared.count >= Self.mostShared, rates.shared[id.mark] == nil { rates.shared.removeAll() }
                var bucket = rates.shared[id.mark] ?? Self.bucket(Double(perSecond) * Self.sharedPart, at: now)
                let (granted, retryAt) = bucket.reserve(1, at: now)
                rates.shared[id.mark] = bucket
                if granted == 0 { waits = retryAt }
            }
            if waits == nil {
                var own = rates.apps[id.app] ?? (perSecond: perSecond, bucket: Self.bucket(Double(perSecond), at: now))
                // A reload may have brought another rate.
                if own.perSecond != perSecond { own = (perSecond, Self.bucket(Double(perSecond), at: now)) }
                let (granted, retryAt) = own.bucket.reserve(1, at: now)
                rates.apps[id.app] = own
                if granted == 0 { waits = retryAt }
            }
            return waits.map { .seconds(clamping: max(0, $0.timeIntervalSince(now))) }
        }
    }

    private static func bucket(_ perSecond: Double, at now: Date) -> TokenBucket {
        TokenBucket(Pacing(perSecond: perSecond, burst: .seconds(2), urgentShare: 0), at: now)
    }

    private static func slot(_ key: UInt64) -> Int { Int(clamping: key % max(1, UInt64(clamping: slots))) }

    private static func second(_ now: Date) -> Int64 { Int64(clamping: now.timeIntervalSince1970) }
}
