import Foundation
import ChaparCore
import Testing

@Suite("Times in HTTP header fields", .timeLimit(.minutes(1)))
struct HTTPDateTests {
    static let dates: [(String, Double?)] = [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799), ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000),
        ("Wed, 29 Feb 2023 12:00:00 GMT", nil), ("Sunday, 06-Nov-94 08:49:37 GMT", nil), ("", nil),
        ("Sun Nov  6 08:49:37 1994", nil), ("Sun, 06 Nov 1994 08:49:37 CET", nil),
        ("Sun, 06 Nov 1994 24:00:00 GMT", nil),
        ("Sun, 06 Nox 1994 08:49:37 GMT", nil), ("Sun, -6 Nov 1994 08:49:37 GMT", nil),
        ("Sun, 06 Nov -994 08:49:37 GMT", nil),
    ]

    @Test("A date of the usual form is read, anything else is not", arguments: dates)
    func date(text: String, seconds: Double?) {
        #expect(HTTPDate.parse(text)?.timeIntervalSince1970 == seconds)
    }

    static let waits: [(String?, Duration?)] = [
        ("120", .seconds(120)), ("0", .zero), ("-5", .zero), ("99999999999", .seconds(86400)), ("soon", nil),
        (nil, nil),
        ("Thu, 01 Jan 1970 00:01:00 GMT", .seconds(60)), ("Wed, 31 Dec 1969 23:59:00 GMT", .zero),
    ]

    @Test("Retry-After is seconds or a date, never negative, never more than a day", arguments: waits)
    func retryAfter(text: String?, expected: Duration?) {
        let headers = text.map { [HTTPHeader("retry-after", $0)] } ?? []
        let answer = HTTPAnswer(status: 503, headers: headers)
        #expect(answer.retryAfter(now: Date(timeIntervalSince1970: 0)) == expected)
    }

    @Test(
        "A date in Retry-After goes by the clock of the answer, however wrong ours is",
        arguments: [0.0, 3600, -3600]
    )
    func otherClock(ours: Double) {
        let headers = [
            HTTPHeader("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            HTTPHeader("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT"),
        ]
        let theirs = Date(timeIntervalSince1970: 784_111_777)
        let answer = HTTPAnswer(status: 503, headers: headers)
        #expect(answer.retryAfter(now: theirs.addingTimeInterval(ours)) == .seconds(5))
    }
}
