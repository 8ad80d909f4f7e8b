import Foundation
import ChaparCore
import Testing

@Suite("The rest of a message's time to live")
struct RemainingTests {
    static let cases: [(PushRequest.Expiration?, Duration?, PushRequest.Remaining)] = [
        (nil, nil, .platformDefault), (nil, .seconds(60), .seconds(60)), (nil, .milliseconds(1), .seconds(1)),
        (nil, .milliseconds(1_500), .seconds(2)), (nil, .zero, .now), (nil, .seconds(-1), .now),
        (.immediately, .seconds(60), .now), (.at(1_001), nil, .seconds(1)), (.at(1_000), nil, .over),
        (.at(999), .seconds(60), .over), (.at(.min), nil, .over), (.at(.max), nil, .seconds(.max - 1_000)),
    ]

    @Test("It comes from the expiration, else from the time to live", arguments: cases)
    func remaining(expiration: PushRequest.Expiration?, timeToLive: Duration?, expected: PushRequest.Remaining) {
        let notification = PushNotification(title: "t", timeToLive: timeToLive)
        let request = PushRequest(notification, to: [], expiration: expiration)
        #expect(request.remaining(now: Date(timeIntervalSince1970: 1_000.9)) == expected)
    }
}
