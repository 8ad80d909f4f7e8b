internal import ChaparDelivery

/// The endpoints that accept notifications; the raw value is the path.
package enum SendingEndpoint: String {
    case notifications = "/v1/notifications"
    case batch = "/v1/notifications/batch"
}
