import Foundation
import ChaparComposition
import ChaparCore

/// The checks of each accepted delivery when all has ended.
extension Oracle {
    /// Checks the world when all has ended.
    func judge(_ world: World) {
        if let difference = devices.difference(from: world.platforms[2]) { return fail(difference) }
        if devices.isJudged { cover(.devicesJudged) }
        for message in submissions where message.id != nil {
            if message.ended.count != message.recipients {
                let open = (0..<message.recipients).filter { message.ended[$0] == nil }
                return fail("message \(message.serial) (\(message.id ?? "")) has not ended: deliveries \(open)")
            }
            for index in 0..<message.recipients { judge(message, index, world) }
        }
    }

    /// Whether an end of the gateway may have left open what became of a delivery.
    private func wasInterrupted(_ key: String, _ world: World) -> Bool {
        interrupted.contains(key) || world.platforms.contains { $0.interrupted.contains(key) }
    }

    /// The latency of an urgent message is bounded, and others do not overtake it, as long as nothing disturbs the
    /// gateway.
    private func judgeLatency(_ message: Submission, _ key: String, _ offered: [Int64], _ world: World) {
        guard message.isUrgent, !message.isScheduled, message.cancelled == nil, message.erasedAt == nil,
            let first = offered.min(),
            message.acceptedAt > 0,
            // All of them: the first one may be none that is configured.
            case let platforms = world.platforms.filter({ message.plan.backends.contains($0.name) }),
            platforms.allSatisfy({ $0.healthySince < message.acceptedAt - 120_000_000_000 }),
            let platform = platforms.first(where: { $0.offered[key]?.first == first }),
            !disturbances.contains(where: { $0 > message.acceptedAt - 60_000_000_000 && $0 < first })
        else { return }
        cover(.urgentAtOnce)
        let before = platform.log.drop { $0.at <= message.acceptedAt }.prefix { $0.at < first }
            .count { !(Int($0.key.prefix { $0 != "/" }).map { submissions[$0].isUrgent } ?? false) }
        // What is claimed already goes first, and the share that normal messages are guaranteed.
        if before > 3 * world.conditions.window + 16 { fail("\(key) is urgent, and \(before) others went before it") }
        // With a rate of 20 a second an urgent one may wait for other urgent ones.
        let ahead = platform.log.drop { $0.at <= message.acceptedAt }.prefix { $0.at < first }.count
        let wait = first - message.acceptedAt
        if wait > 5_000_000_000 + 100_000_000 * Int64(ahead) {
            fail("\(key) is urgent, and waited for \(wait / 1_000_000) ms behind \(ahead) others")
        }
    }

    /// Nothing expires whose platforms work and were idle for a second of its time to live.
    private func judgeExpiry(_ message: Submission, _ key: String, _ world: World) {
        let end = message.acceptedAt + Int64(message.timeToLive) * 1_000_000_000
        let platforms = world.platforms.filter { message.plan.backends.contains($0.name) }
        guard !message.isScheduled, message.acceptedAt > 0, !platforms.isEmpty,
            platforms.allSatisfy({ $0.healthySince < message.acceptedAt - 120_000_000_000 }),
            !disturbances.contains(where: { $0 > message.acceptedAt - 60_000_000_000 && $0 < end })
        else { return }
        for platform in platforms {
            var last = message.acceptedAt
            for offer in platform.log.drop(while: { $0.at <= message.acceptedAt }).prefix(while: { $0.at < end }) {
                guard offer.at - last < 1_000_000_000 else { break }
                last = offer.at
            }
            guard end - last > 1_000_000_000 else { return }
        }
        fail("\(key) expired, and \(platforms.map(\.name)) could have taken it")
    }

    /// A message that a platform accepted does not count as failed or expired.
    private func judgeUndelivered(_ message: Submission, _ key: String, _ state: String, _ world: World) {
        let holders = world.platforms.filter { $0.taken[key] != nil }
        guard !holders.isEmpty, Self.isDenial(state) else { return }
        // The refusal of a platform covers its own earlier silence.
        let last = world.platforms.max { ($0.offered[key]?.last ?? 0) < ($1.offered[key]?.last ?? 0) }
        if state == "failed", holders.allSatisfy({ $0 === last }) { return }
        fail("\(key) counts as \(state), and \(holders.map(\.name)) has it")
    }

    /// Checks that a message refused for good does not come back to its platform, if the gateway could record the
    /// refusal.
    private func judgeRefusals(_ key: String, _ world: World) {
        for platform in world.platforms {
            guard let refused = platform.refused[key], let again = platform.offered[key]?.first(where: { $0 > refused })
            else { continue }
            // A gateway that has lost its lease sends for a moment what it had claimed, and can write nothing of it.
            let since = lapsed.contains(key) ? refused - 1_000_000_000 : refused
            if disturbances.contains(where: { (since...again).contains($0) }) { continue }
            fail("\(key) came to \(platform.name) again after it was refused there for good")
        }
    }

    /// Nothing is sent to a user who was erased, but for what is claimed already: that is handed over within the
    /// moment.
    private func judgeErasure(_ message: Submission, _ key: String, _ offered: [Int64]) {
        guard let erasedAt = message.erasedAt else { return }
        let later = offered.filter { $0 > erasedAt }
        if message.isHeldAtErasure { cover(.erasedWhileSent) }
        if message.isHeldAtErasure, !later.isEmpty {
            fail("\(key) was being sent when its user was erased, and was sent again")
        }
        if later.count > 1 || later.contains(where: { $0 > erasedAt + 5_000_000_000 }) {
            fail("\(key) was tried after the erasure of its user was answered")
        }
    }

    /// The next platform gets a message neither before its time nor after a report ended the wait.
    private func judgeEscalation(_ message: Submission, _ index: Int, _ world: World) {
        let key = message.key(index)
        guard message.awaiting.contains(index), let offered = world.platforms[1].offered[key] else { return }
        if let end = message.reportEnds[index] {
            let grace: Int64 = lapsed.contains(key) ? 5_000_000_000 : 0
            if offered.contains(where: { $0 > end + grace }) { fail("\(key) went on after a report ended its wait") }
        }
        // Spans follow the wall clock over a restart, and a gateway without its lease sends what another one has.
        guard faults[.clockJump] == nil, !lapsed.contains(key), let first = offered.first,
            let taken = world.platforms[0].offered[key]?.last, first > taken
        else { return }
        let wait = first - taken
        if wait < Int64(World.escalationWait) * 1_000_000_000 - 200_000_000 {
            fail("\(key) went on \(wait / 1_000_000) ms after it was taken, before its time")
        }
    }

    private func offeredNowhere(_ key: String, _ world: World) -> Bool {
        world.platforms.allSatisfy { $0.offered[key] == nil }
    }

    private func judge(_ message: Submission, _ index: Int, _ world: World) {
        let key = message.key(index)
        let state = message.ended[index] ?? "?"
        let taken = world.platforms.flatMap { $0.taken[key] ?? [] }
        let isUnresolved = world.platforms.contains { $0.unresolved.contains(key) }
        if Set(world.platforms.filter { $0.taken[key] != nil }.map(\.name)).count > 1 { cover(.fellBack) }
        judgeReceipts(message, index, state, world)
        judgeEscalation(message, index, world)
        if Self.isAcceptance(state), taken.isEmpty {
            fail("\(key) counts as accepted, and no platform has it")
        }
        // Beta says of what it does not answer that a repetition does harm.
        let allowsOnce =
            message.plan.onUnknown == .stop || message.plan.onUnknown == nil && message.plan.backends == ["beta"]
        if allowsOnce, taken.count > 1 { fail("\(key) was sent \(taken.count) times, and may be sent once") }
        if restarted.contains(key), !wasInterrupted(key, world) {
            fail("\(key) counts as sent before a start, and waited then")
        }
        judgeUndelivered(message, key, state, world)
        if state == "expired", offeredNowhere(key, world) { judgeExpiry(message, key, world) }
        if state == "unknown", !isUnresolved, !wasInterrupted(key, world) {
            fail("\(key) is unknown without a cause")
        }
        if Self.isDenial(state), !taken.isEmpty, !isUnresolved, world.incarnations == 1 {
            fail("\(key) counts as \(state), and \(world.platforms.filter { $0.taken[key] != nil }.map(\.name)) has it")
        }
        if let expires = message.expires, let late = taken.first(where: { $0 > expires.addingTimeInterval(10) }) {
            fail("\(key) was sent \(late.timeIntervalSince(expires)) s after it expired")
        }
        let offered = world.platforms.flatMap { $0.offered[key] ?? [] }
        if let cancelled = message.cancelled {
            // What a gateway had claimed when it lost its lease is found waiting, and may be on its way to a platform.
            let mayArrive = cancelled.inFlight > 0 || state == "unknown" && lapsed.contains(key)
            if offered.contains(where: { $0 > cancelled.at + (mayArrive ? 5_000_000_000 : 0) }) {
                fail("\(key) was tried after its cancellation was answered")
            }
        }
        judgeRefusals(key, world)
        judgeErasure(message, key, offered)
        judgeLatency(message, key, offered, world)
    }
}
