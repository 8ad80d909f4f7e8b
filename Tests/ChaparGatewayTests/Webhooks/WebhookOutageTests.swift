import Foundation
import ChaparCore
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparDelivery

/// An hour of the clock in which one receiver is down, beside one that works; and the same hour without it.
@Suite("A receiver that is down for an hour", .timeLimit(.minutes(4)), .serialized)
struct WebhookOutageTests {
    private static let minutes = 60
    private static let perMinute = 30
    private static var count: Int { minutes * perMinute }

    /// What an hour came to.
    private struct Hour {
        /// The clock's seconds from each event to its request at the receiver that works, by the event's number.
        var delays: [Int64: TimeInterval] = [:]
        /// The most that the worker of the sick endpoint held in each minute.
        var entries: [Int] = []
        var bytes: [Int] = []
        /// The messages of the sick endpoint that waited at the end of the hour.
        var open = 0
        /// The events that the sick endpoint never got, and the messages that were given up.
        var lost = 0
        var failed = 0

        var longestDelay: TimeInterval { delays.values.max() ?? 0 }
    }

    /// What came to the receivers: when an event first came to the one that works, and what the sick one took.
    private struct Arrivals {
        var well: [Int64: Date] = [:]
        var sick: Set<Int64> = []
    }

    @Test(
        "loses nothing, is held in bounded memory, and delays the one that works by nothing",
        arguments: ["", #","batch":true"#]
    )
    func hour(more: String) async throws {
        let alone = try await Self.hour(withSick: false, more)
        let both = try await Self.hour(withSick: true, more)
        print(
            """
            webhook outage \(more.isEmpty ? "single" : "batches"): \(Self.count) events in an hour, lost \(both.lost), \
            open at its end \(both.open), longest delay beside it \(both.longestDelay) s, alone \(alone.longestDelay) s, \
            most entries \(both.entries.max() ?? 0), most bytes \(both.bytes.max() ?? 0)
            """
        )
        #expect(both.delays == alone.delays && both.delays.count == Self.count, "each delay is that without it")
        #expect(both.lost == 0 && both.failed == 0)
        #expect(both.open < 100, "an outage keeps the first messages and one a minute")
        // A page of events and those before it, of 1,800 in all: what is held does not grow with the outage. The bytes
        // of these events are below 400 each.
        #expect(both.entries.allSatisfy { $0 <= 400 } && both.bytes.allSatisfy { $0 <= 400 * 400 })
    }

    private static func hour(withSick: Bool, _ more: String) async throws -> Hour {
        let result = Mutex(Hour())
        try await WebhookRig.run { rig, receiver in
            let arrivals = Mutex(Arrivals())
            let end = rig.time.now.addingTimeInterval(3_600)
            receiver.answer { [time = rig.time] request, _ in
                let isTaken = request.path == "/well" || time.now >= end
                arrivals.withLock { arrivals in
                    for number in request.numbers where isTaken {
                        if request.path == "/well" {
                            arrivals.well[number] = arrivals.well[number] ?? time.now
                        } else {
                            arrivals.sick.insert(number)
                        }
                    }
                }
                return isTaken ? .status(200) : .reset
            }
            if withSick { try await rig.add("sick", receiver.url("/sick"), more) }
            try await rig.add("well", receiver.url("/well"))
            var hour = Hour()
            for minute in 0..<minutes {
                try await pass(minute, rig, arrivals: { arrivals.withLock { $0 } }, &hour)
            }
            if withSick { try await settle(rig, arrivals: { arrivals.withLock { $0 } }, &hour) }
            let found = hour
            result.withLock { $0 = found }
        }
        return result.withLock { $0 }
    }

    /// Lets a minute pass: its events come to the receiver that works before the clock moves.
    private static func pass(
        _ minute: Int,
        _ rig: WebhookRig,
        arrivals: () -> Arrivals,
        _ hour: inout Hour
    ) async throws {
        let published = rig.time.now
        let event = Array(
            #"{"type":"delivery.failed","at":"\#(RFC3339.string(published))","backend":"ios","state":"failed"}"#.utf8
        )
        try await rig.store.publish(Array(repeating: event, count: perMinute))
        try await rig.wait("the one that works has all of minute \(minute)") {
            arrivals().well.count == (minute + 1) * perMinute
        }
        for (number, at) in arrivals().well where number > minute * perMinute {
            hour.delays[number] = at.timeIntervalSince(published)
        }
        for _ in 0..<6 {
            rig.time.advance(by: .seconds(10))
            try await Task.sleep(for: .milliseconds(2))
        }
        if let peak = rig.relay.takePeak(of: "sick") {
            hour.entries.append(peak.entries)
            hour.bytes.append(peak.bytes)
        }
    }

    /// Lets the sick receiver work again until it has all.
    private static func settle(_ rig: WebhookRig, arrivals: () -> Arrivals, _ hour: inout Hour) async throws {
        hour.open = Int(try await rig.show("sick")["open"]?.integerValue ?? .max)
        try await rig.wait("the other one has all", moving: .seconds(5)) { arrivals().sick.count == count }
        try await rig.settle("sick")
        hour.lost = count - arrivals().sick.count
        hour.failed = Int(try await rig.show("sick")["failed"]?.integerValue ?? .max)
    }
}
