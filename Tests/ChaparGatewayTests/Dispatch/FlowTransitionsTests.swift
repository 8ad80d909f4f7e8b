import Foundation
import ChaparComposition
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Random walks through the machines: every move is in their tables, and every move of the tables is made.
@Suite("The tables of breaker and flow control")
struct FlowTransitionsTests {
    private static let start = Date(timeIntervalSince1970: 1_700_000_000)

    private struct Move: Hashable, CustomStringConvertible {
        var from: String
        var to: String
        var description: String { "\(from) to \(to)" }
    }

    private static func moves<State, Event>(of table: StateTable<State, Event>) -> Set<Move> {
        var moves: Set<Move> = []
        for from in State.allCases {
            for to in table.states(after: from) { moves.insert(Move(from: from.rawValue, to: to.rawValue)) }
        }
        return moves
    }

    @Test("A breaker makes the moves of its table, and no other")
    func breaker() {
        var generator = SeededGenerator(seed: 7)
        var breaker = Breaker(Breaker.Settings(failures: 2, cooldown: .seconds(10)))
        var now = Self.start
        var seen: Set<Move> = []
        for _ in 0..<20_000 {
            let before = breaker.state
            switch Int.random(in: 0..<10, using: &generator) {
            case 0, 1: breaker.record(.fails(reason: "down"), at: now)
            case 2: breaker.record(.works, at: now)
            case 3: breaker.record(.pause(.seconds(20), reason: "busy"), at: now)
            case 4: breaker.record(.park(reason: "key", detail: nil), at: now)
            case 5: breaker.trip(until: now.addingTimeInterval(30), reason: "hand")
            case 6: breaker.reset()
            case 7: breaker.abandonProbe()
            case 8: breaker.record(.slow(reason: "busy", detail: nil), at: now)
            default: _ = breaker.admit(at: now)
            }
            now += TimeInterval.random(in: 0...8, using: &generator)
            if before != breaker.state {
                seen.insert(Move(from: before.status.rawValue, to: breaker.state.status.rawValue))
            }
        }
        #expect(seen == Self.moves(of: Breaker.transitions))
    }

    @Test("Flow control makes the moves of its table, and no other")
    func flow() {
        var generator = SeededGenerator(seed: 11)
        var state = FlowGate.State()
        var now = Self.start
        var seen: Set<Move> = []
        for _ in 0..<20_000 {
            let before = state.status
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: _ = state.apply(.pause(.seconds(20), reason: "busy"), at: now)
            case 1: _ = state.apply(.park(reason: "key", detail: nil), at: now)
            case 2: _ = state.apply(.works, at: now)
            case 3: _ = state.quarantine(Bool.random(using: &generator), at: now)
            case 4: _ = state.apply(.slow(reason: "busy", detail: nil), at: now)
            default: _ = state.step(window: 10, at: now)
            }
            now += TimeInterval.random(in: 0...30, using: &generator)
            seen.insert(Move(from: before.rawValue, to: state.status.rawValue))
        }
        let moves = Self.moves(of: FlowGate.transitions)
        let still = Set(FlowStatus.allCases.map { Move(from: $0.rawValue, to: $0.rawValue) })
        #expect(seen.subtracting(still) == moves.subtracting(still))
    }
}
