/// A sequence that reads a page of elements when the reader has taken all elements of the page before; nothing is read
/// before it is iterated.
///
/// Each iteration begins anew. It holds one page and no task, so the store is read as fast as the reader asks, and
/// nothing keeps running when the reader leaves the loop.
struct PagedSequence<Place: Sendable, Element: Sendable>: AsyncSequence, Sendable {
    /// Reads the page at a place and moves the place on; nil ends the sequence.
    typealias Reading = @Sendable (inout Place) async throws(GatewayProblem) -> [Element]?

    private let start: Place
    private let read: Reading

    init(from start: Place, read: @escaping Reading) {
        self.start = start
        self.read = read
    }

    func makeAsyncIterator() -> Iterator { Iterator(place: start, read: read) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate var place: Place
        fileprivate let read: Reading
        /// The rest of the page, the next element last.
        private var page: [Element] = []
        private var isOver = false

        fileprivate init(place: Place, read: @escaping Reading) {
            self.place = place
            self.read = read
        }

        mutating func next() async throws(GatewayProblem) -> Element? {
            while !isOver {
                if let element = page.popLast() { return element }
                // After an error, as after the last page, there is nothing more.
                isOver = true
                guard !Task.isCancelled, let next = try await read(&place) else { return nil }
                page = next.reversed()
                isOver = false
            }
            return nil
        }
    }
}
