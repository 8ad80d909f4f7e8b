import Foundation
import NIOCore
import NIOHTTP1
import ChaparCore
import ChaparQueue

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The end of a run: everything works again, and what must hold then is looked at.
///
/// Each check comes to a verdict: a question without an answer is repeated, and fails the run when none comes in time.
extension Run {
    /// The most time that a check waits for its verdict, in nanoseconds.
    private static let patience: Int64 = 120_000_000_000
    /// The most time that one answer is waited for.
    private static let longestAnswer: Int64 = 10_000_000_000

    /// Everything works again: then every message must end within its time to live and a grace.
    func heal() {
        trace.record("healing")
        world.oracle.isMended = true
        world.disk.heal()
        world.database?.heal()
        healWebhooks()
        world.scheduler.setRight()
        for platform in world.platforms { platform.set(.healthy, at: world.scheduler.now) }
        world.releaseReaders(reading: false)
        world.secondReader?.read(true)
        world.run(milliseconds: 30_000)
        guard standing() != nil else { return }
        world.reload(0)
        resumeCampaigns()
        for platform in world.platforms { settleInvalidations(of: platform.name) }
        waitForEnds()
        guard !world.oracle.hasFailed else { return }
        for message in world.oracle.submissions where !message.isSettled {
            guard let id = message.id else { continue }
            world.ask(.GET, "/v1/notifications/\(id)/deliveries") { [trace] _, answer in trace.record(answer.text) }
        }
        world.run(milliseconds: 100)
        world.oracle.judge(world)
        let checks = [checkCampaigns, checkWebhooks, checkErasures, checkReader, checkStore, checkEnd]
        for check in checks where !world.oracle.hasFailed { check() }
    }

    private func waitForEnds() {
        let end = world.scheduler.now + (600 + 60 + 120) * 1_000_000_000
        var isPushedOn = false
        while !world.oracle.hasFailed, world.scheduler.now < end,
            !world.oracle.isSettled || !world.oracle.campaigns.isSettled
                || world.oracle.devices.difference(from: world.platforms[2]) != nil
                || world.scheduler.steps < Self.fewestSteps
        {
            world.run(milliseconds: 5_000)
            followCampaigns()
            // What is scheduled follows the wall clock: it goes on when the others have had their time.
            if world.scheduler.now > end - 120_000_000_000, !isPushedOn {
                isPushedOn = true
                world.jump(by: 2 * 86_400)
            }
        }
    }

    // MARK: Verdicts

    /// Runs until something is known, or for so many nanoseconds.
    private func wait(_ most: Int64, until isKnown: () -> Bool) {
        let end = world.scheduler.now + most
        while !isKnown(), !world.oracle.hasFailed, world.scheduler.now < end { world.run(milliseconds: 10) }
    }

    /// Repeats an attempt until it has a result; without any in time the run fails with the words that are given.
    private func verdict<Value>(_ trouble: () -> String, of attempt: () -> Value?) -> Value? {
        let end = world.scheduler.now + Self.patience
        while !world.oracle.hasFailed, world.scheduler.now < end {
            if let value = attempt() { return value }
            world.run(milliseconds: 1_000)
        }
        world.oracle.fail(trouble())
        return nil
    }

    /// The gateway that runs.
    private func standing() -> World.Incarnation? {
        verdict {
            "no gateway stands after everything was mended"
        } of: {
            guard let incarnation = world.incarnation, !incarnation.hasEnded, incarnation.stopped == nil,
                incarnation.server != nil, incarnation.shutDown != nil
            else { return nil }
            return incarnation
        }
    }

    /// The answer to a request, which is repeated after no answer, 429 and 503.
    func settled(
        _ method: HTTPMethod,
        _ path: String,
        _ body: String? = nil,
        _ fields: [(String, String)] = []
    ) -> (status: Int, answer: JSONValue)? {
        var last = "nothing"
        return verdict {
            "\(method) \(path) is answered with \(last), and with nothing else"
        } of: {
            var result: (status: Int?, answer: JSONValue)?
            world.ask(method, path, fields, body) { [bend] status, answer in
                let bent: Bend = method == .GET ? .unavailableErasures : .unavailableInvalidations
                result = (bend == bent ? 503 : status, answer)
            }
            wait(Self.longestAnswer) { result != nil }
            guard let result, let status = result.status else { return nil }
            last = "\(status) \(result.answer.text)"
            return status == 429 || status == 503 ? nil : (status, result.answer)
        }
    }

    /// The outcome of a call of the store; nil when it has none in time.
    private func outcome<Value: Sendable>(of call: @escaping @Sendable () async throws -> Value) -> Outcome<Value>? {
        let box = Box<Value>()
        Task {
            do {
                let value = try await call()
                box.outcome = .success(value)
            } catch {
                box.outcome = .failure(error)
            }
        }
        wait(Self.longestAnswer) { box.outcome != nil }
        return box.outcome
    }

    private typealias Outcome<Value> = Swift.Result<Value, any Error>

    /// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
    private final class Box<Value>: @unchecked Sendable { var outcome: Outcome<Value>? }

    // MARK: Checks

    /// An operator looks at the tokens that were refused in numbers, and keeps them.
    private func settleInvalidations(of backend: String) {
        let path = "/v1/backends/\(backend)/invalidations"
        guard let (status, answer) = settled(.POST, path, #"{"action":"discard"}"#), status != 200 else { return }
        world.oracle.fail("invalidations are settled with \(status): \(answer.text)")
    }

    /// Nothing is known any more of what went to a user alone who was erased.
    private func checkErasures() {
        let erased = world.oracle.submissions.filter { $0.erasedAt != nil }
        guard !erased.isEmpty else { return }
        // What was being sent at the time is made up for within half a minute of its end.
        world.run(milliseconds: 90_000)
        for submission in erased {
            guard let id = submission.id, let (status, _) = settled(.GET, "/v1/notifications/\(id)") else { return }
            if status != 404 {
                world.oracle.fail(
                    "message \(submission.serial) went to a user who was erased, and is answered with \(status)"
                )
            }
        }
        checkEvents(without: Set(erased.map(\.serial)))
    }

    /// Every event that there is can be read, and none names these messages.
    private func checkEvents(without serials: Set<Int>) {
        let last = world.oracle.lastEvent
        var (frames, read): (EventFrames, Int64) = (EventFrames(), 0)
        _ = verdict {
            "the events are read to \(read) of \(last)"
        } of: {
            frames.reset()
            var isOver = false
            let stream = world.listen(after: read) { [world, bend] part in
                switch part {
                case .head: break
                case .body(let buffer):
                    for event in frames.append(buffer.readableBytesView) where bend != .silentEvents {
                        read = max(read, event.number)
                        guard let title = event.json?["title"]?.stringValue, let serial = Int(title),
                            serials.contains(serial)
                        else { continue }
                        world.oracle.fail("message \(serial) went to a user who was erased, and its events name it")
                    }
                case .end: isOver = true
                }
            } onEnd: {
                isOver = true
            }
            wait(Self.longestAnswer) { read >= last || isOver || stream == nil }
            stream?.close()
            world.run(milliseconds: 100)
            return read >= last ? true : nil
        }
    }

    /// The second reader has every event.
    private func checkReader() {
        world.callbacks = []
        world.run(milliseconds: 2_000)
        guard let second = world.secondReader else { return }
        let last = bend == .readerBehind ? second.last - 1 : second.last
        if last != world.oracle.lastEvent {
            world.oracle.fail("a second reader has the events to \(last) of \(world.oracle.lastEvent)")
        }
    }

    /// The queues are empty, the ledger is even, and no memory is set aside for bodies.
    private func checkStore() {
        var trouble = "no answer"
        let found: (World.Incarnation, [String: QueueDepth])? = verdict {
            "what waits is not known: \(trouble)"
        } of: {
            guard let incarnation = standing(), let store = incarnation.store else { return nil }
            let depths = outcome { [bend, time = incarnation.time] in
                if bend == .failingDepths { throw StoreError.failed("bent") }
                if bend == .silentDepths { try await time.sleep(for: .seconds(86_400)) }
                return try await store.depths()
            }
            switch depths {
            case .success(let depths)?: return (incarnation, depths)
            case .failure(let error)?: trouble = "\(error)"
            case nil: trouble = "no answer"
            }
            return nil
        }
        guard let (incarnation, depths) = found else { return }
        let waiting = depths.values.reduce(0) { $0 + $1.waiting + $1.claimed }
        let own = depths.filter { $0.key != "delta" }.values.reduce(0) { $0 + $1.waiting + $1.claimed }
        if own != 0 { world.oracle.fail("\(own) deliveries wait after all have ended") }
        // An acceptance of which no answer came is in the database and not in the counters.
        if world.database == nil {
            let difference = incarnation.metrics?.ledger.difference(waiting: waiting)
            if difference != 0 {
                world.oracle.fail("the ledger's difference is \(difference.map(String.init) ?? "unknown")")
            }
        }
        let held = incarnation.server?.bodyBytes
        if held != 0 { world.oracle.fail("\(held.map(String.init) ?? "unknown") bytes of bodies are held at rest") }
    }

    /// A client that does not read must not hold up the end.
    private func checkEnd() {
        guard let incarnation = standing() else { return }
        world.openIdleReader()
        world.run(milliseconds: 1_000)
        if bend != .deafEnd { world.terminate() }
        wait(Int64(World.drain + 6) * 1_000_000_000) { incarnation.hasEnded }
        if !incarnation.hasEnded { world.oracle.fail("a gateway that was told to end runs on") }
    }
}
