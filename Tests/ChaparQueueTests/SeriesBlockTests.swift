import ChaparQueue
import Testing

@Suite("The stored form of counts over time")
struct SeriesBlockTests {
    private static func counts(_ values: [Int64]) -> SeriesCounts {
        var counts = SeriesCounts()
        for (place, value) in SeriesCounts.sums.enumerated() where place < values.count {
            counts[keyPath: value] = values[place]
        }
        if values.count > SeriesCounts.sums.count { counts.oldest = values[SeriesCounts.sums.count] }
        return counts
    }

    @Test("has the bytes that stores have on disk")
    func bytes() {
        var block = SeriesBlock(.minutes)
        #expect(block.stored == [])
        block.add(SeriesCounts(), at: 1)
        block.add(Self.counts([300, 0, 0, 0, 0, 0, 1, 5]), at: 2)
        #expect(block.stored == [0, 1, 2, 0b1100_0001, 0xAC, 2, 1, 5])
        #expect(SeriesBlock(.minutes, stored: block.stored) == block)
    }

    @Test("gives back every value, the highest too", arguments: SeriesScale.allCases)
    func wholeRange(scale: SeriesScale) {
        var block = SeriesBlock(scale)
        for slot in 0..<scale.slots {
            block.add(Self.counts((0..<8).map { slot % 3 == 0 ? .max : Int64(slot) << (7 * $0) }), at: slot)
        }
        #expect(SeriesBlock(scale, stored: block.stored) == block)
        block.add(Self.counts([1]), at: scale.slots)
        block.add(Self.counts([1]), at: -1)
        #expect(SeriesBlock(scale, stored: block.stored) == block, "a span beyond the row is left out")
    }

    @Test(
        "is refused where it is malformed",
        arguments: [
            [3], [2], [2, 1], [2, 1, 0x80], [2, 3, 5], [2, 1] + [UInt8](repeating: 0xFF, count: 10),
            [UInt8](repeating: 1, count: 61),
        ] as [[UInt8]]
    )
    func malformed(bytes: [UInt8]) { #expect(SeriesBlock(.minutes, stored: bytes) == nil) }

    @Test("takes a byte for an idle minute, and at most 24 for a minute of 20,000 a second")
    func sizes() {
        func size(perSecond: Int64) -> Int {
            var block = SeriesBlock(.minutes)
            let count = 60 * perSecond
            let bad = [count / 50, count / 500, count / 1_000, count / 20, 3_600]
            block.add(Self.counts(perSecond == 0 ? [] : [count, count, count] + bad), at: 0)
            return block.stored.count
        }
        #expect(size(perSecond: 0) == 1)
        #expect(size(perSecond: 1_000) <= 21)
        #expect(size(perSecond: 20_000) <= 24)
        // 48 hours of the largest minutes.
        #expect(size(perSecond: 20_000) * 60 * 48 <= 69 << 10)
    }

    @Test("is added up: sums are sums, the age is the highest, and no sum ends the process")
    func sums() {
        var block = SeriesBlock(.minutes)
        #expect(block.sum == nil)
        block.add(Self.counts([1, .max, 0, 0, 0, 0, 0, 9]), at: 0)
        block.add(Self.counts([2, .max, 0, 0, 0, 0, 0, 4]), at: 59)
        #expect(block.sum == Self.counts([3, .max, 0, 0, 0, 0, 0, 9]))
        let change = Self.counts([3, 1]).since(Self.counts([1, 4]))
        #expect(change == Self.counts([2, 0]), "a total that fell is no change")
    }

    @Test("of minutes becomes hours of the same day, also before 1970")
    func folding() {
        func row(_ start: Int64, _ backend: String, _ accepted: Int64) -> SeriesRow {
            var block = SeriesBlock(.minutes)
            block.add(Self.counts([accepted]), at: 30)
            return SeriesRow(.minutes, start: start, backend: backend, run: 9, block)
        }
        let folded = SeriesRow.folded([
            row(-1, "", 1), row(0, "", 2), row(1, "a", 3), row(0, "", 4), row(24, "", 5),
        ])
        #expect(folded.map { [$0.start, $0.run] } == [[-1, 0], [0, 0], [0, 0], [1, 0]])
        #expect(folded.map(\.backend) == ["", "", "a", ""])
        #expect(folded[0].block.slots[23]?.accepted == 1)
        #expect(folded[1].block.slots[0]?.accepted == 6)
        #expect(folded[2].block.slots[1]?.accepted == 3)
    }
}
