@_exported public import ChaparAPI
@_exported public import ChaparClient
@_exported public import ChaparDelivery
@_exported public import ChaparQueue
@_exported public import ChaparServer
