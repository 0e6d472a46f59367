// Sequelize's models.
const { DataTypes, Sequelize } = require('sequelize');

const sequelize = new Sequelize(process.env.DATABASE_URL, { logging: false, define: { timestamps: false } });
const key = () => ({ type: DataTypes.BIGINT, primaryKey: true, defaultValue: Sequelize.literal('snowflake_id()') });

const Customer = sequelize.define('customers', { id: key(), name: DataTypes.TEXT });
const Order = sequelize.define('orders', { id: key(), item: DataTypes.TEXT });
Customer.hasMany(Order);
Order.belongsTo(Customer);

module.exports = { sequelize, Customer, Order };
