"""Image augmentation in tf.data: stateless random crops, flips, colours, then a small report."""

import numpy as np
import tensorflow as tf

SIZE = 24


def checkerboards(count):
    rng = np.random.default_rng(19)
    for number in range(count):
        cell = 2 + number % 4
        rows, columns = np.indices((SIZE, SIZE)) // cell
        board = ((rows + columns) % 2)[..., None] * rng.integers(60, 255, 3)
        yield board.astype("uint8")


def encode(images):
    """PNG bytes, as a dataset on disk would have them."""
    return [tf.io.encode_png(image).numpy() for image in images]  # op: EncodePng


def augment(seed, png):
    image = tf.io.decode_png(png, channels=3)  # op: DecodePng
    image = tf.image.convert_image_dtype(image, tf.float32)
    seed = tf.stack([tf.cast(seed, tf.int32), 7])
    image = tf.image.stateless_random_crop(image, (18, 18, 3), seed)
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.resize(image, (16, 16))  # op: ResizeBilinear
    image = tf.image.stateless_random_brightness(image, 0.2, seed)
    image = tf.image.adjust_saturation(image, 0.7)
    return tf.clip_by_value(image, 0.0, 1.0)


@tf.function
def describe(images):
    grey = tf.image.rgb_to_grayscale(images)
    edges = tf.image.sobel_edges(grey)  # op: DepthwiseConv2dNative
    smooth = tf.nn.avg_pool2d(grey, 4, 4, "VALID")  # op: AvgPool
    contrast = tf.math.reduce_std(smooth, axis=[1, 2, 3])
    return tf.reduce_mean(tf.abs(edges), axis=[1, 2, 3, 4]), contrast


def main():
    files = tf.data.Dataset.from_tensor_slices(encode(checkerboards(48))).enumerate()
    data = files.map(augment, num_parallel_calls=2).batch(8).prefetch(1)
    sharpest = []
    for epoch in range(2):
        for images in data:
            edges, contrast = describe(images)
            sharpest.append(int(tf.argmax(edges)))
        print(f"epoch {epoch}: {images.shape}, contrast {float(tf.reduce_mean(contrast)):.2f}")
    print("sharpest of each batch:", sharpest[:6])
    print("epochs agree:", sharpest[:6] == sharpest[6:])


if __name__ == "__main__":
    main()
