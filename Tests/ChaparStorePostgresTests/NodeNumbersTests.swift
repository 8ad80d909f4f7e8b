import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("The numbers that nodes give out")
struct NodeNumbersTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)

    @Test("A number at the end of all numbers ends nothing", arguments: [Int64.max, .min, NotificationID.highest])
    func ends(highest: Int64) {
        var numbers = NodeNumbers(slot: 63, above: highest)
        for time in [Date.distantPast, Self.start, Date(timeIntervalSince1970: 1e300)] {
            let id = numbers.allocate(.max, at: time)
            #expect(NodeNumbers.isNumber(id, of: 63) || id.rawValue == NotificationID.highest)
        }
        for time in [Int64.max, .min, -1, 0] {
            let day = Partitions.day(time)
            #expect(Partitions.Table.allCases.allSatisfy { $0.start(of: day) <= $0.start(of: .max) })
            #expect(Partitions.end(of: day) > time || time == .max)
        }
        #expect(Partitions.day(-1) == -1 && Partitions.day(-86_400_000) == -1 && Partitions.day(-86_400_001) == -2)
        #expect(Partitions.day(86_399_999) == 0 && Partitions.end(of: 0) == 86_400_000)
    }

    @Test("No two nodes give out the same number, however many deliveries a notification has")
    func apart() {
        var nodes = [0, 1, 2, 63].map { NodeNumbers(slot: $0, above: 0) }
        var taken: [Range<Int64>] = []
        for round in 0..<300 {
            let now = Self.start + Double(round) * 0.0017
            for place in nodes.indices {
                let count = [1, 100_000, 40_000, 7][(round + place) % 4]
                let first = nodes[place].allocate(count, at: now).rawValue
                taken.append(first..<first + Int64(count))
            }
        }
        let sorted = taken.sorted { $0.lowerBound < $1.lowerBound }
        for (one, next) in zip(sorted, sorted.dropFirst()) { #expect(one.upperBound <= next.lowerBound) }
    }

    @Test("A number says when it was given out, but for a sixteenth of a second, and follows the one before")
    func times() {
        for slot in [0, 17, 63] as [Int64] {
            var numbers = NodeNumbers(slot: slot, above: 0)
            var last: Int64 = 0
            for round in 0..<500 {
                let now = Self.start + Double(round) * 0.0031
                let id = numbers.allocate(3, at: now)
                #expect((-0.001..<0.064).contains(now.timeIntervalSince(id.time)))
                #expect(id.rawValue > last)
                last = id.rawValue + 2
            }
            numbers.skip(to: last + 1_000)
            #expect(numbers.allocate(1, at: Self.start).rawValue > last + 1_000)
        }
    }

    @Test("A node that was taken for dead and gets its slot again gives out no number twice")
    func sameSlot() async throws {
        try await Nodes.use(1, time: ManualTime()) { nodes in
            let core = nodes[0].core
            let before = [1, 100, 1].map { core.makeID(recipients: $0) }
            core.become(node: core.nodeNumber, slot: core.place.slot, above: 0)
            let after = [1, 100, 1].map { core.makeID(recipients: $0) }
            #expect(before[2] < after[0])
            #expect(Set(before).isDisjoint(with: after))
        }
    }
}
