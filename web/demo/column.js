/** A list of numbers in a typed array that grows: a stream of many steps is a few of them. */
export class Column {
  length = 0;
  /** @type {Int32Array | Float64Array} */
  #numbers;

  /** @param {Int32ArrayConstructor | Float64ArrayConstructor} [Kind] */
  constructor(Kind = Int32Array) {
    this.#numbers = new Kind(64);
  }

  /** @param {number} number */
  push(number) {
    const numbers = this.#numbers;
    if (this.length === numbers.length) {
      const Kind = /** @type {Int32ArrayConstructor} */ (numbers.constructor);
      this.#numbers = new Kind(2 * numbers.length);
      this.#numbers.set(numbers);
    }
    this.#numbers[this.length++] = number;
  }

  /** The number at a place; 0 where there is none. @param {number} n */
  get(n) {
    return n >= 0 && n < this.length ? /** @type {number} */ (this.#numbers[n]) : 0;
  }

  /** The last number; 0 if there is none. */
  get last() {
    return this.get(this.length - 1);
  }

  /** Add to all numbers from a place on. @param {number} from @param {number} by */
  increaseFrom(from, by) {
    for (let n = from; n < this.length; n++) this.#numbers[n] = this.get(n) + by;
  }
}
